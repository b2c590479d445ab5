/** A real server, or the reason why none is available. */
export type RealServer = { readonly connectionString: string } | { readonly missing: string };

/** The server of `EVENTSTOREDB_URL` (an `esdb://…` whose log the tests may write to). `npm run test:containers` starts such servers. */
export function realServer(): RealServer {
  const connectionString = process.env['EVENTSTOREDB_URL'];
  return connectionString ? { connectionString } : { missing: 'EVENTSTOREDB_URL is not set' };
}
