import { readFile } from 'node:fs/promises';
import { RootKeyUnusableError } from '../../errors.ts';

/** The address of a key in the transit engine of HashiCorp Vault or OpenBao, and the credential for it. */
export interface TransitOptions {
  /** `https://…`; `http://…` for a loopback address only. May have a path before `/v1/…`. */
  readonly url: string;
  readonly key: string;
  /** Path of the secrets engine; `transit` by default. */
  readonly mount?: string | undefined;
  readonly namespace?: string | undefined;
  /** Either the token or a file that holds it. The file is read at each use, so that an agent may replace the token. */
  readonly token?: string | undefined;
  readonly tokenFile?: string | undefined;
  /** PEM file of the certificate authority of the engine; the authorities of Node by default. */
  readonly caFile?: string | undefined;
  /** Time limit of one attempt (5 s) and of all attempts of one call (15 s). */
  readonly attemptMs?: number;
  readonly deadlineMs?: number;
}

const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/;
const keyName = /^\w([\w.-]*\w)?$/;
const pathName = /^\w([\w.-]*\w)?(\/\w([\w.-]*\w)?)*$/;

function problemOf(options: TransitOptions): string | undefined {
  const { url, key, mount, namespace, token, tokenFile } = options;
  if (!URL.canParse(url)) return 'its URL is not valid';
  const { protocol, hostname, username, password, search, hash } = new URL(url);
  if (protocol !== 'https:' && !(protocol === 'http:' && loopback.test(hostname)))
    return 'its URL must begin with https://';
  if (`${username}${password}${search}${hash}` !== '')
    return 'its URL must hold no credentials, query or fragment';
  if (!keyName.test(key)) return 'the name of its key is not valid';
  if (mount !== undefined && !pathName.test(mount)) return 'its mount is not valid';
  if (namespace !== undefined && !pathName.test(namespace)) return 'its namespace is not valid';
  if ((token === undefined) === (tokenFile === undefined)) return 'it needs either a token or a file of one';
  return undefined;
}

/** @throws RootKeyUnusableError that names the wrong option, without its value. */
export function requireTransitOptions(options: TransitOptions): void {
  const problem = problemOf(options);
  if (problem !== undefined) throw new RootKeyUnusableError(`transit: ${problem}`);
}

async function readText(file: string, content: 'token' | 'authority'): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'unknown error';
    throw new RootKeyUnusableError(`transit: the file ${file} of its ${content} cannot be read: ${code}`, {
      cause,
    });
  }
}

/** @throws RootKeyUnusableError */
export async function readToken({ token, tokenFile = '' }: TransitOptions): Promise<string> {
  const text = (token ?? (await readText(tokenFile, 'token'))).trim();
  // A token with characters that a header cannot hold would cause an error that quotes the token.
  if (!/^[!-~]{1,8192}$/.test(text))
    throw new RootKeyUnusableError('transit: its token is empty or not a token');
  return text;
}

/** @throws RootKeyUnusableError */
export async function readAuthority({ caFile }: TransitOptions): Promise<string | undefined> {
  if (caFile === undefined) return undefined;
  const text = await readText(caFile, 'authority');
  if (!text.includes('-----BEGIN CERTIFICATE-----'))
    throw new RootKeyUnusableError(`transit: the file ${caFile} of its authority holds no PEM certificate`);
  return text;
}
