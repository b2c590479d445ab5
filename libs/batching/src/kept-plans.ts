/**
 * Settings of a Postgres session whose statements find rows by key, many at a time. Postgres would plan a statement with
 * arrays at each execution, since the plan for these few elements looks cheaper than that for any number: a seventh of the time
 * of a vault under load. A plan that is kept must be right for tables of any size, so nothing but indexes is left to choose.
 * Where two indexes would do, the statement must leave one: a plan from when the table was empty takes either.
 */
export const keptPlans = `set plan_cache_mode = force_generic_plan; set jit = off;
  set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off`;

interface Session {
  query(text: string): Promise<unknown>;
}

/** As `onConnect` of a pool: its sessions keep their plans. */
export async function keepPlans(session: Session): Promise<void> {
  await session.query(keptPlans);
}
