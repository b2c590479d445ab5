import { randomBytes } from 'node:crypto';
import { RootKeyUnusableError, SealBrokenError } from '../../errors.ts';
import type { RootKeyProvider } from '../port.ts';
import { createTransitClient, TransitRefusal, type TransitClient } from './client.ts';
import type { TransitOptions } from './options.ts';

export { requireTransitOptions, type TransitOptions } from './options.ts';

/** A key of a transit engine. Each of its versions is a root key. */
export interface TransitKey {
  /**
   * The newest version. Proves that the token may wrap and unwrap, and that the engine checks the associated data.
   * @throws RootKeyUnusableError, RootKeyUnavailableError
   */
  newest(): Promise<RootKeyProvider>;
  /** The version with this id; undefined when the id is of another key, or the version is no longer available. @throws as `newest` */
  find(rootKeyId: string): Promise<RootKeyProvider | undefined>;
}

/** Whether the id is that of a key in a transit engine. */
export const isTransitRootKeyId = (rootKeyId: string): boolean => rootKeyId.startsWith('transit:');

const authenticated = /^(aes(128|256)-gcm96|chacha20-poly1305)$/;

interface KeyDescription {
  /** Version → time of its creation, in seconds. */
  readonly versions: ReadonlyMap<number, number>;
  readonly newest: number;
}

function describe(data: unknown, place: string): KeyDescription {
  const { type, derived, keys, latest_version: newest } = (data ?? {}) as Record<string, unknown>;
  const refuse = (reason: string) => new RootKeyUnusableError(`root key: transit ${place} ${reason}`);
  if (typeof type !== 'string' || typeof newest !== 'number' || typeof keys !== 'object')
    throw refuse('does not answer as a transit engine does');
  if (!authenticated.test(type) || derived === true)
    throw refuse('must be a key of type aes256-gcm96 or chacha20-poly1305 without derivation');
  const versions = new Map(
    Object.entries(keys ?? {}).map(([version, made]) => [Number(version), Number(made)]),
  );
  if (!versions.has(newest)) throw refuse('does not answer as a transit engine does');
  return { versions, newest };
}

function textOf(data: unknown, field: string, place: string): string {
  const text = (data as Record<string, unknown> | null | undefined)?.[field];
  if (typeof text === 'string') return text;
  throw new RootKeyUnusableError(`root key: transit ${place} does not answer as a transit engine does`);
}

/** The texts of a failed decryption. Any other refusal does not mean that the bytes are wrong. */
const broken = /message authentication failed|invalid ciphertext/i;

function explain(error: unknown, place: string): unknown {
  if (!(error instanceof TransitRefusal)) return error;
  if (broken.test(error.words)) return new SealBrokenError();
  const isOld = /too old|disallowed by policy|minimum|less than/i.test(error.words);
  const reason = isOld
    ? 'refuses this version of the key: it is set to a later minimum'
    : 'refuses to use the key (400)';
  return new RootKeyUnusableError(`root key: transit ${place} ${reason}`);
}

/**
 * One version of the key. Its id contains the name, the version and the time of creation: the address of the engine may change, and a key
 * of the same name in another engine is a different key.
 */
function providerOf(client: TransitClient, key: string, version: number, made: number): RootKeyProvider {
  const prefix = `vault:v${version}:`;
  const { place } = client;
  const refused = (error: unknown): never => {
    throw explain(error, place);
  };
  return {
    id: `transit:${key}:v${version}:${made}`,

    async wrap(plaintext, aad) {
      const body = {
        plaintext: plaintext.toString('base64'),
        associated_data: aad.toString('base64'),
        key_version: version,
      };
      const wrapped = textOf(await client.write(`encrypt/${key}`, body).catch(refused), 'ciphertext', place);
      if (wrapped.startsWith(prefix)) return Buffer.from(wrapped);
      throw new RootKeyUnusableError(
        `root key: transit ${place} wrapped by another version than the requested one`,
      );
    },

    async unwrap(wrapped, aad) {
      const ciphertext = wrapped.toString('latin1');
      if (!ciphertext.startsWith(prefix)) throw new SealBrokenError();
      const body = { ciphertext, associated_data: aad.toString('base64') };
      const text = textOf(await client.write(`decrypt/${key}`, body).catch(refused), 'plaintext', place);
      return Buffer.from(text, 'base64');
    },
  };
}

/** An engine that is too old ignores associated data. Then one row could replace another, so such an engine is refused. */
async function prove(provider: RootKeyProvider, place: string): Promise<void> {
  const bytes = randomBytes(32);
  const wrapped = await provider.wrap(bytes, Buffer.from('proof'));
  if (!(await provider.unwrap(wrapped, Buffer.from('proof'))).equals(bytes))
    throw new RootKeyUnusableError(
      `root key: transit ${place} does not decrypt to the bytes that were encrypted`,
    );
  const isBound = await provider.unwrap(wrapped, Buffer.from('other')).then(
    () => false,
    (error: unknown) => {
      if (error instanceof SealBrokenError) return true;
      throw error;
    },
  );
  if (!isBound)
    throw new RootKeyUnusableError(
      `root key: transit ${place} ignores associated data; it must be HashiCorp Vault 1.9, OpenBao, or newer`,
    );
}

/**
 * A root key that never leaves a KMS: HashiCorp Vault or OpenBao, transit secrets engine. The token needs `read` on `<mount>/keys/<key>`
 * and `update` on `<mount>/encrypt/<key>` and `<mount>/decrypt/<key>`. It must not have `create`: then an encryption under an absent key
 * would create that key.
 * @throws RootKeyUnusableError when the options are wrong.
 */
export function transitKey(options: TransitOptions): TransitKey {
  const client = createTransitClient(options);
  const { key } = options;

  async function read(): Promise<KeyDescription> {
    const data = await client.read(`keys/${key}`).catch((error: unknown) => {
      throw explain(error, client.place);
    });
    return describe(data, client.place);
  }

  return {
    async newest() {
      const { newest, versions } = await read();
      const provider = providerOf(client, key, newest, versions.get(newest) ?? 0);
      await prove(provider, client.place);
      return provider;
    },

    async find(rootKeyId) {
      const [, version, made] = /^transit:[\w.-]+:v(\d+):(\d+)$/.exec(rootKeyId) ?? [];
      if (version === undefined || !rootKeyId.startsWith(`transit:${key}:`)) return undefined;
      const { versions } = await read();
      if (versions.get(Number(version)) !== Number(made)) return undefined;
      return providerOf(client, key, Number(version), Number(made));
    },
  };
}
