/** The fields in the order in which the vault signs them (docs/how-to/certify-an-erasure.md). */
const reference = ['type', 'id', 'stream', 'revision', 'position', 'occurred_at', 'hash'];
const fields = [
  'format',
  'tenant_id',
  'token_id',
  'token_type',
  'erased_by',
  'destroyed_keys',
  'verified_at',
  'public_key',
] as const;
const format = 'token-vault erasure certificate 1';

type Fields = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const ordered = (value: unknown, names: readonly string[]): Fields =>
  isObject(value) ? Object.fromEntries(names.map((name) => [name, value[name]])) : {};

function signedTextOf(certificate: Fields): string {
  const { erased_by: erasedBy, destroyed_keys: keys } = certificate;
  const canonical: Fields = {
    ...ordered(certificate, fields),
    erased_by: ordered(erasedBy, reference),
    destroyed_keys: (Array.isArray(keys) ? (keys as unknown[]) : []).map((key) => {
      const parts = ordered(key, ['key_id', 'sealed', 'decided_by']);
      return { ...parts, decided_by: ordered(parts['decided_by'], reference) };
    }),
  };
  return JSON.stringify([format, canonical]);
}

/** Fields that the signature does not cover would be shown as if it did. */
const hasOnly = (value: unknown, names: readonly string[]): boolean =>
  isObject(value) && Object.keys(value).every((name) => names.includes(name));

const bytesOf = (base64url: unknown): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(
    atob(typeof base64url === 'string' ? base64url.replaceAll('-', '+').replaceAll('_', '/') : '?'),
    (character) => character.charCodeAt(0),
  );

export interface Verified {
  readonly isValid: boolean;
  readonly says: string;
}

/**
 * Checks the signature of an erasure certificate by WebCrypto, without the vault.
 * @param publicKey the tenant's, raw, base64url, from a source that the person trusts
 */
export async function verifyCertificate(text: string, publicKey: string, tokenId: string): Promise<Verified> {
  const no = (says: string): Verified => ({ isValid: false, says });
  let certificate: unknown;
  try {
    certificate = JSON.parse(text);
  } catch {
    return no('This is not JSON.');
  }
  if (!isObject(certificate) || certificate['format'] !== format)
    return no('This is not an erasure certificate.');
  if (!hasOnly(certificate, [...fields, 'signature']))
    return no('The certificate has fields that are not signed.');
  if (certificate['public_key'] !== publicKey.trim())
    return no('The certificate names another public key than the given one.');
  if (certificate['token_id'] !== tokenId) return no('The certificate is of another token.');
  try {
    const key = await crypto.subtle.importKey('raw', bytesOf(publicKey.trim()), 'Ed25519', false, ['verify']);
    const signed = new TextEncoder().encode(signedTextOf(certificate));
    const isValid = await crypto.subtle.verify('Ed25519', key, bytesOf(certificate['signature']), signed);
    return { isValid, says: isValid ? 'The signature is valid.' : 'The signature is not valid.' };
  } catch {
    return no('The public key or the signature cannot be read.');
  }
}
