import {
  createInvocationOutcomes,
  type CompileCode,
  type InvocationOutcomes,
} from '@token-vault/command-service';
import { UnavailableError } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import { createLazySandbox, type LazySandbox } from '@token-vault/reactor-runner';
import type { Logger } from '@token-vault/service-kit';
import type { Closers } from '../closers.ts';

export interface ReactorParts {
  readonly outcomes: InvocationOutcomes;
  readonly sandbox: LazySandbox;
  readonly compileCode: CompileCode;
}

function openSandbox(logger: Logger): LazySandbox {
  return createLazySandbox({
    // The rest starts when it is needed: an idle process takes 50 MB.
    spares: 1,
    report: (event) => {
      if (event.kind === 'walls') {
        const missing = Object.entries(event.walls).filter(([, stands]) => stands === false);
        const reason = missing.map(([name]) => name).join(', ');
        if (reason === '') logger.info({ task: 'sandbox' }, 'the sandbox of reactors has all its walls');
        else logger.warn({ task: 'sandbox', reason }, 'the sandbox of reactors lacks walls on this host');
      } else logger.error({ task: 'sandbox' }, 'processes of the sandbox do not start');
    },
  });
}

/** What command handlers need of reactors, before there are handlers. Nothing starts before it is used. */
export function openReactorParts(store: EventStore, logger: Logger, closers: Closers): ReactorParts {
  const sandbox = closers.add(openSandbox(logger), (it) => it.close());
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
