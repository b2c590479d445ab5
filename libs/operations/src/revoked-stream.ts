import type { Principal } from '@token-vault/access';
import { streams, type Operation, type OperationId, type Operations } from '@token-vault/contracts';
import { parseInput } from './validation.ts';

type Revocation = Extract<Operations[OperationId], { readonly isRevocation: true }>;
type Caller = Pick<Principal, 'tenant' | 'actor'>;

const isRevocation = (operation: Operation): operation is Revocation => operation.isRevocation === true;

/** The streams of the entities whose rights operations withdraw. `id`: from the path. */
const streamOf: Readonly<Record<Revocation['entity'], (caller: Caller, id: string) => string>> = {
  application: ({ tenant }, id) => streams.application(tenant.id, id),
  proxy: ({ tenant }, id) => streams.proxy(tenant.id, id),
  // A browser can end its own session only.
  session: ({ tenant, actor }) => streams.consoleSession(tenant.id, actor.id),
  tenant: ({ tenant }) => streams.tenant(tenant.id),
};

/** The stream of the entity whose rights the operation may have withdrawn; undefined for an operation that withdraws none. */
export function revokedStream(operation: Operation, caller: Caller, given: unknown): string | undefined {
  const { params } = operation;
  if (!isRevocation(operation)) return undefined;
  // Parsed, so that another spelling of an id names the same stream.
  const parsed = parseInput(params, given, { root: 'path' });
  const { id = '' } = (parsed ?? {}) as { readonly id?: string };
  return streamOf[operation.entity](caller, id);
}
