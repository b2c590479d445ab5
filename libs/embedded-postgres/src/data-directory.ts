import { createHash } from 'node:crypto';
import path from 'node:path';
import { currentIdentity, firstClosedDirectory, type Identity, unprivilegedAccount } from './account.ts';

const systemDirectory = '/var/lib/token-vault';

/**
 * The data directory when the operator named none: `preferred`. Exception: the vault runs as root below a closed home directory (a checkout
 * in /root), which the account of Postgres may not enter. Then it is a directory below /var/lib/token-vault, the same at every start. Tell
 * the operator when the answer is not `preferred`.
 * @throws StartError when root has no usable account.
 */
export async function defaultDataDirectory(preferred: string, identity?: Identity): Promise<string> {
  const account = await unprivilegedAccount(identity ?? (await currentIdentity()), preferred);
  if (!account || !(await firstClosedDirectory(path.dirname(path.resolve(preferred)), account)))
    return preferred;
  const name = createHash('sha256').update(path.resolve(preferred)).digest('hex').slice(0, 12);
  return path.join(systemDirectory, name);
}
