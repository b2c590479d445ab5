/** The only folder that names the tables of the log. */
export const adapter = 'libs/event-store/src/postgres/';

/** The schema of the log, as SQL names it. Neither `event_store_unavailable` nor the key of a health check is meant. */
const namesTheSchema = /\bevent_store\b(?!:)/;

/** Tests may tamper beneath the adapter, and benchmarks fill a log without it. The protocol of EventStoreDB has a package of that name. */
const isExempt = (file: string): boolean =>
  file.startsWith(adapter) || file.startsWith('scripts/') || /^test\/|\/test\/|\.test\.ts$/.test(file);

const isSource = (file: string): boolean => /\.(ts|sql|mjs|cjs|js)$/.test(file);

/** The files that name the tables of the log and may not. Docs, deployment files and all else that is not program text are free. */
export function lawless(files: readonly string[], textOf: (file: string) => string): string[] {
  return files.filter((file) => isSource(file) && !isExempt(file) && namesTheSchema.test(textOf(file)));
}
