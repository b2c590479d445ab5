import { streams, TokenSigned } from '@token-vault/contracts';
import { RevisionConflictError } from '@token-vault/event-store';
import { errorFields } from '@token-vault/service-kit';
import { expectedAt } from '../aggregates/decider.ts';
import { systemContext } from '../aggregates/system-context.ts';
import { executeTenant } from '../tenants/execute.ts';
import { readTokenHistory } from '../tokens/history.ts';
import { signTokenEvents } from '../tokens/signed.ts';
import { createTransactionOutcomes, type TransactionOutcomes } from '../transactions/outcomes.ts';
import type { SigningDependencies } from './sign-grants.ts';

const pageSize = 500;
const atOnce = 32;

type Work = SigningDependencies & { readonly outcomes: TransactionOutcomes };

/** Undefined when it has to be looked at again: a transaction holds it, or somebody wrote to it just now. */
async function signToken(work: Work, tenantId: string, id: string): Promise<boolean | undefined> {
  const { store, keyRing, clock, outcomes } = work;
  const history = await readTokenHistory(store, outcomes, tenantId, id);
  if (history.isPending) return undefined;
  if (history.state.kind !== 'present' || history.state.details.content.signature !== undefined) return false;
  const { type } = history.state.details;
  const data = { token_id: id, token_type: type };
  const plain = systemContext(tenantId, 'upgrade', clock).event(TokenSigned, data);
  const events = await signTokenEvents(keyRing, tenantId, [plain], history);
  try {
    await store.append(streams.token(tenantId, id), events, expectedAt(history.revision));
    return true;
  } catch (error) {
    if (error instanceof RevisionConflictError) return undefined;
    throw error;
  }
}

/** Whether every token of the tenant is signed. What the read model does not show yet is met in the next round. */
async function signTokensOf(work: Work, tenantId: string, signal: AbortSignal): Promise<boolean> {
  let areAllSigned = true;
  for (let after = ''; ;) {
    const { rows } = await work.pool.query<{ id: string }>(
      `select id from rm_tokens.token where tenant_id = $1 and id > $2 and signature is null order by id limit $3`,
      [tenantId, after, pageSize],
    );
    for (let at = 0; at < rows.length; at += atOnce) {
      if (signal.aborted) return false;
      const signed = await Promise.all(
        rows.slice(at, at + atOnce).map(({ id }) => signToken(work, tenantId, id)),
      );
      if (signed.some((each) => each !== false)) areAllSigned = false;
    }
    const last = rows.at(-1);
    if (!last) return areAllSigned;
    after = last.id;
  }
}

/**
 * Signs the tokens that a release before signatures made, while the vault serves. When a round finds none that is left, the tenant
 * is signed again, and from then on a token without a signature is refused. Gives how many tenants are done.
 */
export async function signTokens(dependencies: SigningDependencies, signal: AbortSignal): Promise<number> {
  const { store, keyRing, pool, clock, logger } = dependencies;
  const work = { ...dependencies, outcomes: createTransactionOutcomes(store, clock) };
  const { rows } = await pool.query<{ id: string }>(
    'select id from rm_tenants.tenant where accepts_unsigned and not is_deleted',
  );
  let done = 0;
  for (const { id: tenantId } of rows) {
    if (signal.aborted) break;
    try {
      if (!(await signTokensOf(work, tenantId, signal))) continue;
      const context = systemContext(tenantId, 'upgrade', clock);
      const event = context.event.bind(context);
      const command = { kind: 'sign', acceptsUnsigned: false } as const;
      await executeTenant({ store, keyRing, tenantId, command, event });
      logger.info({ tenant_id: tenantId, task: 'upgrade' }, 'the tokens of an older release are signed');
      done += 1;
    } catch (error) {
      // The others are not to wait for it.
      logger.warn({ ...errorFields(error), tenant_id: tenantId, task: 'upgrade' }, 'tokens were not signed');
    }
  }
  return done;
}
