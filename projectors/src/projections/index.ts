import type { ReadModelName } from '@token-vault/contracts';
import type { Projection } from '../projection.ts';
import { alerts } from './alerts.ts';
import { applications } from './applications.ts';
import { invocations } from './invocations.ts';
import { logSummary } from './log-summary.ts';
import { log } from './log.ts';
import { proxies } from './proxies.ts';
import { reactors } from './reactors.ts';
import { runs } from './runs.ts';
import { tenants } from './tenants.ts';
import { tokens } from './tokens.ts';
import { transactions } from './transactions.ts';

/** Every read model of the product. A missing one does not compile. */
const byName: { readonly [Name in ReadModelName]: Projection<Name> } = {
  tenants,
  applications,
  tokens,
  log,
  reactors,
  proxies,
  transactions,
  invocations,
  alerts,
  runs,
  log_summary: logSummary,
};
export const projections: readonly Projection[] = Object.values(byName);

export { applications, log, reactors, tenants, tokens };
