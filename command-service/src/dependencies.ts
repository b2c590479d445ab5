import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Expressions, RequestExpressions } from '@token-vault/expressions';
import type { AuditTrail, Clock, Logger, MissLimit, RequestContext } from '@token-vault/service-kit';
import type { InvocationOutcomes } from './invocations/outcomes.ts';
import type { CompileCode } from './reactors/code-check.ts';

/** What command handlers are given. */
export interface CommandDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly audit: AuditTrail;
  readonly expressions: Expressions;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The one of the process; of its own when absent. */
  readonly missLimit?: MissLimit;
  /** Compiles reactor code where it would run; it is only parsed when absent. */
  readonly compileCode?: CompileCode;
  /** Reactors cannot be invoked when absent. */
  readonly invocations?: { readonly outcomes: InvocationOutcomes; readonly allowsPlainHttp: boolean };
}

/** The expressions of a request, which share its budget. */
export const expressionsOf = (
  { expressions }: Pick<CommandDependencies, 'expressions'>,
  { identity, principal }: RequestContext,
): RequestExpressions => expressions.of(identity, principal.tenant.id);
