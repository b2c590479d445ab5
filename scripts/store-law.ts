/** The only folder that names the tables of the log. */
export const adapter = 'libs/event-store/src/postgres/';

/** The schema of the log, as SQL names it. Does not match `event_store_unavailable` and the key of a health check. */
const namesTheSchema = /\bevent_store\b(?!:)/;

/**
 * Tests alter the tables directly, benchmarks fill a log without the adapter, and the protocol of EventStoreDB has a package of that name.
 */
const isExempt = (file: string): boolean =>
  file.startsWith(adapter) || file.startsWith('scripts/') || /^test\/|\/test\/|\.test\.ts$/.test(file);

const isSource = (file: string): boolean => /\.(ts|sql|mjs|cjs|js)$/.test(file);

/** The files outside the adapter that name the tables of the log. Only source files are checked, not documents and deployment files. */
export function filesNamingTheLog(files: readonly string[], textOf: (file: string) => string): string[] {
  return files.filter((file) => isSource(file) && !isExempt(file) && namesTheSchema.test(textOf(file)));
}
