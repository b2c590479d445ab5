import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Job, Summary } from './job.ts';
import type { Server } from './server.ts';

const execute = promisify(execFile);

/** Loads the vault from a process of its own. */
export async function load(job: Job): Promise<Summary> {
  const script = path.join(import.meta.dirname, 'generator.ts');
  const { stdout } = await execute(process.execPath, [script, JSON.stringify(job)], {
    maxBuffer: 64 * 1024 * 1024,
  });
  return JSON.parse(stdout) as Summary;
}

export async function post(
  server: Server,
  route: string,
  key: string,
  body: object,
): Promise<Record<string, string>> {
  const response = await fetch(`http://127.0.0.1:${server.port}${route}`, {
    method: 'POST',
    headers: { 'SVC-API-KEY': key, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${route} answered ${response.status}`);
  return (await response.json()) as Record<string, string>;
}

export const median = (numbers: readonly number[]): number =>
  [...numbers].sort((left, right) => left - right)[Math.floor(numbers.length / 2)] ?? 0;

/** The summary whose 99th percentile is the median. */
export function middle(summaries: readonly Summary[]): Summary {
  const p99Ms = median(summaries.map((it) => it.p99Ms));
  return summaries.find((it) => it.p99Ms === p99Ms) as Summary;
}

/** An application with all permissions of the rows, and a reactor with `code`. */
export async function setUpReactor(
  server: Server,
  managementKey: string,
  code: string,
): Promise<{ readonly key: string; readonly reactorId: string }> {
  const { key = '' } = await post(server, '/applications', managementKey, {
    name: 'bench',
    type: 'private',
    permissions: ['token:create', 'token:read', 'token:use'],
  });
  const { id: reactorId = '' } = await post(server, '/reactors', managementKey, {
    name: 'bench',
    configuration: {},
    code,
  });
  return { key, reactorId };
}
