/**
 * (ADR 11) Postgres plans a statement with array parameters at each execution, because the plan for these few elements looks cheaper than a generic
 * plan: that took a seventh of the time of a vault under load. With these settings a session keeps its plans. A plan may have been made
 * while the tables were empty, so sequential scans are disabled: they would be slow when the tables have grown.
 */
const keptPlans = 'set plan_cache_mode = force_generic_plan; set jit = off; set enable_seqscan = off';

/**
 * The same settings for a session whose statements all find rows by key. Plans must be right for tables of any size, so only index scans
 * are allowed. If two indexes could serve a statement, the statement must be written so that only one can: a plan made on an empty table
 * may take either.
 */
export const keptIndexPlans = `${keptPlans}; set enable_hashjoin = off; set enable_mergejoin = off`;

interface Session {
  query(text: string): Promise<unknown>;
}

export async function keepPlans(session: Session): Promise<void> {
  await session.query(keptPlans);
}

/**
 * For `onConnect` of a pool. The pool waits for the promise that this gives, although its types do not say so: with a promise in the type,
 * the linter would refuse the function there.
 */
export const keepIndexPlans = (session: { query(text: string): unknown }): unknown =>
  session.query(keptIndexPlans);
