import path from 'node:path';
import { clusterDirectory } from './cluster.ts';
import { clearLeftovers } from './leftovers.ts';
import { type Logger, silentLogger } from './logger.ts';
import { socketDirectoryFor } from './socket-directory.ts';
import { acquireSupervisorLock } from './supervisor-lock.ts';

/**
 * Makes sure that no Postgres runs on `dataDir`, and that none is started until the returned function is called.
 * @throws DataDirectoryInUseError while a vault runs there
 */
export async function keepPostgresStopped(
  dataDir: string,
  logger: Logger = silentLogger,
): Promise<() => Promise<void>> {
  const release = await acquireSupervisorLock(dataDir);
  try {
    await clearLeftovers(path.join(clusterDirectory(dataDir), 'data'), socketDirectoryFor(dataDir), logger);
    return release;
  } catch (error) {
    await release();
    throw error;
  }
}
