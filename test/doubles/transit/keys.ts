import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** An error answer in the server's format. */
export class Refusal extends Error {
  readonly status: number;
  constructor(status: number, words: string) {
    super(words);
    this.status = status;
  }
}

interface Version {
  readonly bytes: Buffer;
  /** In seconds. */
  readonly made: number;
}

/** The keys of one secrets engine and their operations: real AES-256-GCM. */
export class TransitKeys {
  readonly #keys = new Map<string, { type: string; versions: Version[]; minDecryption: number }>();

  create(name: string, type = 'aes256-gcm96'): void {
    this.#keys.set(name, { type, versions: [newVersion()], minDecryption: 1 });
  }

  /** Gives the number of the new version. */
  rotate(name: string): number {
    return this.#of(name, 404).versions.push(newVersion());
  }

  /** Lower versions are refused and no longer listed. */
  setMinDecryptionVersion(name: string, version: number): void {
    this.#of(name, 404).minDecryption = version;
  }

  describe(name: string): object {
    const { type, versions, minDecryption } = this.#of(name, 404);
    const shown = versions
      .map(({ made }, index) => [String(index + 1), made] as const)
      .slice(minDecryption - 1);
    return {
      name,
      type,
      derived: false,
      exportable: false,
      latest_version: versions.length,
      min_available_version: 0,
      min_decryption_version: minDecryption,
      min_encryption_version: 0,
      supports_decryption: true,
      supports_encryption: true,
      keys: Object.fromEntries(shown),
    };
  }

  encrypt(name: string, plaintext: Buffer, aad: Buffer, version?: number): object {
    const { versions } = this.#of(name, 400);
    const used = version ?? versions.length;
    const key = versions[used - 1];
    if (!key)
      throw new Refusal(400, `requested version for encryption is higher than the latest key version`);
    const iv = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', key.bytes, iv).setAAD(aad);
    const sealed = Buffer.concat([iv, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
    return { ciphertext: `vault:v${used}:${sealed.toString('base64')}`, key_version: used };
  }

  decrypt(name: string, ciphertext: string, aad: Buffer): object {
    const { versions, minDecryption } = this.#of(name, 400);
    const [, version = '', text = ''] = /^vault:v(\d+):(.+)$/.exec(ciphertext) ?? [];
    const key = versions[Number(version) - 1];
    const sealed = Buffer.from(text, 'base64');
    if (!key || sealed.length < 28) throw new Refusal(400, 'invalid ciphertext: no prefix');
    if (Number(version) < minDecryption)
      throw new Refusal(400, 'ciphertext or signature version is disallowed by policy (too old)');
    const decipher = createDecipheriv('aes-256-gcm', key.bytes, sealed.subarray(0, 12))
      .setAAD(aad)
      .setAuthTag(sealed.subarray(-16));
    try {
      const plaintext = Buffer.concat([decipher.update(sealed.subarray(12, -16)), decipher.final()]);
      return { plaintext: plaintext.toString('base64') };
    } catch {
      throw new Refusal(400, 'cipher: message authentication failed');
    }
  }

  #of(name: string, absent: number) {
    const key = this.#keys.get(name);
    if (!key) throw new Refusal(absent, absent === 404 ? '' : 'encryption key not found');
    return key;
  }
}

/** Two versions never have the same second: their times distinguish keys of one name. */
let lastMade = 0;
function newVersion(): Version {
  lastMade = Math.max(lastMade + 1, Math.floor(Date.now() / 1000));
  return { bytes: randomBytes(32), made: lastMade };
}
