import type { Principal } from '@token-vault/access';
import { createHash } from 'node:crypto';

const known = new WeakMap<Principal, string>();

/** SHA-256 (hex) of the caller's permissions and rules, and of those of the application that authorised it. The same hash gives the same decisions. */
export function rightsOf(principal: Principal): string {
  const computed = known.get(principal);
  if (computed !== undefined) return computed;
  const { permissions, rules, authorizer } = principal;
  const grants = [permissions, rules, authorizer?.permissions, authorizer?.rules];
  const hash = createHash('sha256').update(JSON.stringify(grants)).digest('hex');
  known.set(principal, hash);
  return hash;
}
