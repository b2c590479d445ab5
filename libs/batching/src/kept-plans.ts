/**
 * Postgres plans a statement with arrays at each execution, since the plan for these few elements looks cheaper than that for any
 * number: that was a seventh of the time of a vault under load. With this a session keeps its plans, made maybe while the tables were
 * empty: they must not scan them when they have grown.
 */
const keptPlans = 'set plan_cache_mode = force_generic_plan; set jit = off; set enable_seqscan = off';

/**
 * The same for a session whose statements all find rows by key. Their plans must be right for tables of any size, so nothing but
 * indexes is left to choose. Where two indexes would do, the statement must leave one: a plan from when the table was empty
 * takes either.
 */
export const keptIndexPlans = `${keptPlans}; set enable_hashjoin = off; set enable_mergejoin = off`;

interface Session {
  query(text: string): Promise<unknown>;
}

export async function keepPlans(session: Session): Promise<void> {
  await session.query(keptPlans);
}

/** As `onConnect` of a pool, which waits for what this gives, though its types do not say so. */
export const keepIndexPlans = (session: Session): void => session.query(keptIndexPlans) as unknown as void;
