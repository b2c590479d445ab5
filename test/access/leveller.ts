import type { Json } from '@token-vault/contracts';

const uuid = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}';
/** A fingerprint, an id, a key, a nonce: what is drawn by chance, or comes of a tenant's keys. */
const byChance = new RegExp(
  `[1-9A-HJ-NP-Za-km-z]{43,44}|${uuid}(\\.[\\w-]{32})?|key_[a-z]{3}_[1-9A-HJ-NP-Za-km-z]{22,}`,
  'g',
);

/**
 * What a tenant's caller was told, with what differs by chance or by the tenant's keys replaced by the order in
 * which it was first told: what is equal stays equal.
 */
export function createLeveller(): (told: unknown) => Json {
  const names = new Map<string, string>();
  const nameOf = (value: string): string => {
    const name = names.get(value) ?? `<${names.size}>`;
    names.set(value, name);
    return name;
  };
  const level = (value: unknown): unknown =>
    typeof value === 'string' ? value.replaceAll(byChance, nameOf) : value;
  return (told) => JSON.parse(JSON.stringify(told, (_key, value: unknown) => level(value))) as Json;
}
