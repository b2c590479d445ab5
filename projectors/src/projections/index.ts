import type { Projection } from '../projection.ts';
import { applications } from './applications.ts';
import { invocations } from './invocations.ts';
import { log } from './log.ts';
import { reactors } from './reactors.ts';
import { tenants } from './tenants.ts';
import { tokens } from './tokens.ts';
import { transactions } from './transactions.ts';

/** Every read model of the product. */
export const projections: readonly Projection[] = [
  tenants,
  applications,
  tokens,
  log,
  reactors,
  transactions,
  invocations,
];

export { applications, invocations, log, reactors, tenants, tokens, transactions };
