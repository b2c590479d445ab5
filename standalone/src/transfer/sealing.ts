import { Decrypter, Encrypter, generateX25519Identity, identityToRecipient } from 'age-encryption';
import { createReadStream } from 'node:fs';
import { open, readFile, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { TransferError } from './errors.ts';

/*
 * The format is age (https://age-encryption.org/v1): X25519 and HKDF for a fresh file key, then ChaCha20-Poly1305
 * over chunks of 64 KiB with a counter and a mark on the last. So a chunk cannot be altered, moved, left out or cut
 * off unnoticed. A recipient needs no vault to open the file: `age -d` opens it.
 */

/** For `catch`: throws the message for an error of the operating system. */
const throwUnreadable =
  (file: string) =>
  (cause: unknown): never => {
    const { code = 'unknown' } = cause as NodeJS.ErrnoException;
    throw new TransferError(`${file} cannot be read (${code})`, { cause });
  };

/** The lines that are neither empty nor a comment, as age's own tools read key files. */
async function keysIn(file: string, form: RegExp, what: string): Promise<string[]> {
  const text = await readFile(file, 'utf8').catch(throwUnreadable(file));
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  const keys = lines.filter((line) => line !== '' && !line.startsWith('#'));
  // The message never quotes a line: the wrong file may hold a secret.
  if (keys.length === 0 || keys.some((key) => !form.test(key)))
    throw new TransferError(`${file} is not a file of ${what}`);
  return keys;
}

export const readRecipients = (file: string): Promise<string[]> =>
  keysIn(file, /^age1[\da-z]{20,3000}$/, 'public keys (age1…)');

/** Read once for an import: the file may be a pipe from a store of secrets. */
export const readIdentities = (file: string): Promise<string[]> =>
  keysIn(file, /^AGE-SECRET-KEY-[\dA-Z-]{20,3000}$/, 'secret keys (AGE-SECRET-KEY-…)');

/** The checkout that this program runs from. */
const checkout = path.resolve(import.meta.dirname, '../../..');

/**
 * Makes a key pair: the secret key in `file`, readable by its owner only, the public key in `<file>.pub`.
 * @throws TransferError when the file exists, or when `file` lies in the checkout, from where a secret may be
 * committed or shipped by mistake
 */
export async function makeKeyPair(file: string): Promise<string> {
  const place = path.join(await realpath(path.dirname(path.resolve(file))), path.basename(file));
  if (place.startsWith(`${await realpath(checkout)}${path.sep}`))
    throw new TransferError(
      `${file} lies in the checkout of the vault: keep a secret key elsewhere, such as in your home`,
    );
  const identity = await generateX25519Identity();
  const recipient = await identityToRecipient(identity);
  await writeNew(file, `# public key: ${recipient}\n${identity}\n`, 0o600);
  await writeNew(`${file}.pub`, `${recipient}\n`, 0o644);
  return recipient;
}

async function writeNew(file: string, text: string, mode: number): Promise<void> {
  const handle = await open(file, 'wx', mode).catch((cause: unknown) => {
    const { code = 'unknown' } = cause as NodeJS.ErrnoException;
    const reason = code === 'EEXIST' ? 'exists already' : `cannot be written (${code})`;
    throw new TransferError(`${file} ${reason}`, { cause });
  });
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export interface Sealed {
  readonly stream: Readable;
  /** The length of age's header, which grows with each recipient, and of the nonce. The first sealed chunk follows. */
  readonly headerBytes: number;
}

/** A sealed chunk is this much longer than its plaintext. */
export const sealOverheadBytes = 16;

/** @throws TransferError for an invalid key */
export async function sealFor(
  recipients: readonly string[],
  plaintext: AsyncIterable<Uint8Array>,
): Promise<Sealed> {
  const encrypter = new Encrypter();
  try {
    for (const recipient of recipients) encrypter.addRecipient(recipient);
  } catch (cause) {
    throw new TransferError('a public key of the recipient is not right', { cause });
  }
  const source = Readable.toWeb(Readable.from(plaintext, { objectMode: false }));
  const sealed = await encrypter.encrypt(source as globalThis.ReadableStream<Uint8Array>);
  // Without plaintext there is one sealed chunk, which is empty.
  return {
    stream: Readable.fromWeb(sealed as ReadableStream),
    headerBytes: sealed.size(0) - sealOverheadBytes,
  };
}

/** @throws TransferError for a pipe, a device or a directory: an import reads its file twice */
async function requireReadableFile(file: string): Promise<void> {
  const found = await stat(file).catch(throwUnreadable(file));
  if (!found.isFile())
    throw new TransferError(`${file} is no regular file: an import reads it twice, so save the export first`);
  const handle = await open(file, 'r').catch(throwUnreadable(file));
  await handle.close();
}

/**
 * The plaintext of a sealed file, chunk by chunk. Each chunk is given only after it is proved genuine. @throws
 * TransferError
 */
export async function* openWith(identities: readonly string[], file: string): AsyncGenerator<Buffer, void> {
  const decrypter = new Decrypter();
  try {
    for (const identity of identities) decrypter.addIdentity(identity);
  } catch (cause) {
    throw new TransferError('a secret key is not right', { cause });
  }
  await requireReadableFile(file);
  try {
    const source = Readable.toWeb(createReadStream(file)) as globalThis.ReadableStream<Uint8Array>;
    const plaintext = Readable.fromWeb((await decrypter.decrypt(source)) as ReadableStream);
    for await (const chunk of plaintext) yield Buffer.from(chunk as Uint8Array);
  } catch (cause) {
    const isForOther = cause instanceof Error && cause.message.startsWith('no identity matched');
    throw new TransferError(
      isForOther
        ? `${file} is sealed to another key`
        : `${file} was altered or cut off, or is not a sealed export`,
      { cause },
    );
  }
}
