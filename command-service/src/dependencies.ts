import { holderOf } from '@token-vault/access';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Expressions, RequestExpressions } from '@token-vault/expressions';
import type { AuditTrail, Clock, RequestContext } from '@token-vault/operations';
import type { Logger } from '@token-vault/observability';
import type { MissLimit } from '@token-vault/http';
import type { InvocationOutcomes } from './invocations/outcomes.ts';
import type { VaultOperator } from './projections/routes.ts';
import type { CompileCode } from './reactors/code-check.ts';
import type { FindActor } from './tokens/seen.ts';
import type { WaitForProjections } from './transactions/commit-turns.ts';

/** The dependencies of command handlers. */
export interface CommandDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly audit: AuditTrail;
  readonly expressions: Expressions;
  readonly clock: Clock;
  readonly logger: Logger;
  /** When absent, the service makes a limit of its own. */
  readonly missLimit?: MissLimit;
  /** Compiles reactor code in the sandbox where it would run. When absent, the code is only parsed. */
  readonly compileCode?: CompileCode;
  /** When absent, no tenant operates the vault by this process. */
  readonly operator?: VaultOperator;
  /** When absent, large commits do not wait for each other. */
  readonly waitForProjections?: WaitForProjections | undefined;
  /** Whether the id of a token that was deleted or has expired may be used again. By default it may; an import would bring erased data back. */
  readonly reusesTokenIds?: boolean;
  /** When absent, reactors cannot be invoked. */
  readonly invocations?: {
    readonly outcomes: InvocationOutcomes;
    readonly allowsPlainHttp: boolean;
    readonly findActor: FindActor;
  };
}

/** The expressions of a request. They share the budget of the request. */
export const expressionsOf = (
  { expressions }: Pick<CommandDependencies, 'expressions'>,
  { identity, principal }: RequestContext,
): RequestExpressions => expressions.of(identity, holderOf(principal));
