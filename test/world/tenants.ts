import { type Client, resultOf } from '@token-vault/test-support';
import { nowhere } from './proxies.ts';
import { permissions, rule } from './rules.ts';
import { type Caller, makeApplicationBy, type TestVault } from './vault.ts';

/** A further tenant of a running vault. */
export interface OtherTenant {
  readonly id: string;
  readonly manager: Client;
  /** An application that may do everything with every token, and sees it in plaintext. */
  readonly author: Caller;
}

/** On the enterprise plan, by the operator's command. Its proxies may send nothing. */
export async function makeTenant({ process, manager: of }: TestVault): Promise<OtherTenant> {
  const output = await resultOf(process().dataDir, 'tenants', 'create', 'Other', '--plan', 'enterprise');
  const manager = of.withKey(/key_mgt_\w+/.exec(output)?.[0] ?? '');
  const body = { name: 'Other', settings: { proxy_destinations: nowhere } };
  const { id } = (await manager.expect<{ id: string }>(200, 'PUT', '/tenants/self', { body })).body;
  const rights = { rules: [rule({ permissions: [...permissions, 'token:delete'] })] };
  return { id, manager, author: await makeApplicationBy(manager, rights) };
}
