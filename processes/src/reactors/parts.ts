import {
  createInvocationOutcomes,
  type CompileCode,
  type InvocationOutcomes,
} from '@token-vault/command-service';
import { UnavailableError } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import {
  createLazySandbox,
  type AccountRange,
  type LazySandbox,
  type Walls,
} from '@token-vault/reactor-runner';
import type { Logger, Metrics } from '@token-vault/observability';
import type { ProcessContext } from '../data.ts';

export interface ReactorParts {
  readonly outcomes: InvocationOutcomes;
  readonly sandbox: LazySandbox;
  readonly compileCode: CompileCode;
}

/** The reported walls: those of the children, and one for a service that does not run as root (ADR 23). */
function toldOf(walls: Walls): Readonly<Record<string, boolean>> {
  return { ...walls, unprivilegedService: process.getuid?.() !== 0 };
}

/** Reports the walls in the log and to Prometheus, and again when they change. */
export function createWallReport(logger: Logger, metrics: Metrics): (walls: Walls) => void {
  let told: Readonly<Record<string, boolean>> = {};
  metrics.gauge(
    'vault_sandbox_wall',
    'Whether a wall around the code of reactors stands on this host: 1 or 0.',
    'wall',
    () => Object.fromEntries(Object.entries(told).map(([name, stands]) => [name, stands ? 1 : 0])),
  );
  return (walls) => {
    const before = JSON.stringify(told);
    told = toldOf(walls);
    if (JSON.stringify(told) === before) return;
    const missing = Object.keys(told).filter((name) => told[name] === false);
    const reason = missing.join(', ');
    if (reason === '') logger.info({ task: 'sandbox' }, 'the sandbox of reactors has all its walls');
    else logger.warn({ task: 'sandbox', reason }, 'the sandbox of reactors lacks walls on this host');
  };
}

export interface SandboxSettings {
  readonly accounts: AccountRange | undefined;
  /** VAULT_REACTOR_RUNS_PER_TENANT. Not needed where code is only compiled. */
  readonly runsPerTenant?: number | undefined;
}

function openSandbox(
  { logger, metrics }: ProcessContext,
  { accounts, runsPerTenant }: SandboxSettings,
): LazySandbox {
  const reportWalls = createWallReport(logger, metrics);
  return createLazySandbox({
    // More processes start on demand: an idle process takes 50 MB.
    spares: 1,
    ...(accounts === undefined ? {} : { accounts }),
    ...(runsPerTenant === undefined ? {} : { maxRunsPerTenant: runsPerTenant }),
    report: (event) => {
      if (event.kind === 'walls') reportWalls(event.walls);
      else logger.error({ task: 'sandbox' }, 'processes of the sandbox do not start');
    },
  });
}

/** The reactor parts that command handlers need, before there are handlers. No process starts before it is used. */
export function openReactorParts(
  context: ProcessContext,
  store: EventStore,
  settings: SandboxSettings,
): ReactorParts {
  const { logger, closers } = context;
  const sandbox = closers.add(openSandbox(context, settings), (it) => it.close());
  const outcomes = closers.add(createInvocationOutcomes({ store, logger }), (it) => it.close());
  return {
    outcomes,
    sandbox,
    async compileCode(code, tenantId) {
      const outcome = await sandbox.compile({ code, tenantId });
      switch (outcome.kind) {
        case 'compiled':
          return { ok: true };
        case 'compile-error':
          return { ok: false, message: outcome.message, line: outcome.line, column: outcome.column };
        case 'unavailable':
          throw new UnavailableError('Code cannot be compiled now; try again.');
      }
    },
  };
}
