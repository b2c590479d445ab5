import {
  permissions,
  streams,
  UnauthenticatedError,
  type ConsoleSession,
  type Permission,
} from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import { load } from '../aggregates/decider.ts';
import { applicationDecider } from '../applications/decider.ts';
import { hasLiveKey, isDue } from '../applications/keys.ts';
import type { ApplicationDetails } from '../applications/state.ts';
import { tenantDecider } from '../tenants/decider.ts';
import type { VaultOperator } from '../projections/routes.ts';
import type { ConsoleMember, ConsoleSessionState } from './state.ts';

export interface DescribeDependencies {
  readonly store: EventStore;
  readonly operator?: Pick<VaultOperator, 'isOperator'> | undefined;
}

/** The application of a member; undefined when it has ended, or its key has. */
export async function activeMember(
  store: EventStore,
  tenantId: string,
  member: ConsoleMember,
  now: Date,
): Promise<ApplicationDetails | undefined> {
  const { state } = await load(
    store,
    streams.application(tenantId, member.application_id),
    applicationDecider,
  );
  if (state.kind !== 'active' || isDue(state.details.expiresAt, now)) return undefined;
  return hasLiveKey(state.details, member.key_hash, now) ? state.details : undefined;
}

/** Everything that the application holds, by a plain permission or by a rule. */
const heldBy = ({ permissions: plain, rules }: ApplicationDetails): readonly Permission[] => [
  ...plain,
  ...rules.flatMap((rule) => rule.permissions),
];

/** The rights of this session, by which the console shows its pages. @throws UnauthenticatedError when the tenant is gone */
export async function describeSession(
  { store, operator }: DescribeDependencies,
  tenantId: string,
  session: Extract<ConsoleSessionState, { kind: 'open' }>,
  now: Date,
): Promise<ConsoleSession> {
  const [tenant, operates, ...found] = await Promise.all([
    load(store, streams.tenant(tenantId), tenantDecider),
    operator?.isOperator(tenantId) ?? false,
    ...session.members.map((member) => activeMember(store, tenantId, member, now)),
  ]);
  if (tenant.state.kind !== 'active') throw new UnauthenticatedError();
  const { name, plan } = tenant.state.details;
  const active = found.filter((details) => details !== undefined);
  const held = new Set(active.flatMap(heldBy));
  return {
    id: session.id,
    tenant: { id: tenantId, name, plan },
    applications: active.map((details) => ({
      id: details.id,
      name: details.name,
      type: details.type,
      permissions: [...details.permissions],
    })),
    permissions: permissions.filter((each) => held.has(each)),
    is_operator: operates,
    created_at: session.createdAt,
    expires_at: session.expiresAt,
    idle_expires_at: session.endsAt,
  };
}
