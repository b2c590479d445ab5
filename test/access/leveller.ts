import type { Json } from '@token-vault/contracts';

const uuid = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}';
/** A fingerprint, an id, a key or a nonce: values that are random or depend on a tenant's keys. */
const byChance = new RegExp(
  `[1-9A-HJ-NP-Za-km-z]{43,44}|${uuid}(\\.[\\w-]{32})?|key_[a-z]{3}_[1-9A-HJ-NP-Za-km-z]{22,}`,
  'g',
);

/**
 * Replaces random values and values of a tenant's keys in the answers by the order of their first appearance. Equal
 * values stay equal.
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
