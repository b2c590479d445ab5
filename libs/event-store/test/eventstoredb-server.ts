import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';

/** A real server, or the reason why none is available. */
export type RealServer =
  { readonly connectionString: string; readonly stop: () => Promise<void> } | { readonly missing: string };

const image = 'docker.io/eventstore/eventstore:24.10';

/** The server of `EVENTSTOREDB_URL` (an `esdb://…` whose log the tests may write to), else a container where Docker is available. */
export async function startRealServer(): Promise<RealServer> {
  const given = process.env['EVENTSTOREDB_URL'];
  if (given) return { connectionString: given, stop: async () => undefined };
  if (!answersDocker()) return { missing: 'EVENTSTOREDB_URL is not set and Docker does not answer' };
  const settings = ['--insecure', '--mem-db', '--run-projections=None'];
  const container = await docker(
    'run',
    '--detach',
    '--rm',
    '--publish',
    '127.0.0.1::2113',
    image,
    ...settings,
  );
  const address = (await docker('port', container, '2113')).split('\n')[0];
  return {
    connectionString: `esdb://${address}?tls=false`,
    stop: async () => void (await docker('stop', container)),
  };
}

async function docker(...parameters: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('docker', parameters);
  return stdout.trim();
}

function answersDocker(): boolean {
  try {
    execFileSync('docker', ['info'], { stdio: 'ignore', timeout: 5_000 });
    return true;
  } catch {
    return false;
  }
}
