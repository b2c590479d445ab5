import { rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { DataDirectory } from '../data-directory.ts';

/** A process of the stack; the gateway comes last. Postgres has no port and leads nothing, and is left out when it is the operator's own. */
interface Described {
  readonly name: string;
  readonly port?: number;
  readonly pid: number | undefined;
  /** The read models that this process keeps up to date, and tasks such as housekeeping. */
  readonly leads?: readonly string[];
}

/**
 * Lists the processes in `stack.json` in the data directory, for tools outside. The file is complete at any moment.
 */
export function descriptionWriter(
  directory: DataDirectory,
  processes: () => readonly Described[],
): () => void {
  const file = path.join(directory.root, 'stack.json');
  let writing = Promise.resolve();
  return () => {
    const described = processes().map(({ name, port, pid, leads }) => ({
      ...{ name, port, pid: pid ?? null },
      ...(leads && { leads: [...leads].sort() }),
    }));
    writing = writing
      .then(() => writeFile(`${file}.tmp`, JSON.stringify(described)))
      .then(() => rename(`${file}.tmp`, file))
      .catch(() => undefined);
  };
}
