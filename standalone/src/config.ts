import type { TraceSettings } from '@token-vault/service-kit';
import {
  readEgressAllow,
  readSandboxAccounts,
  readLimits,
  readRootKeySettings,
  readTraceSettings,
  type LimitConfig,
  type RootKeySettings,
} from '@token-vault/processes';
import path from 'node:path';

/** Where and how a standalone vault runs; each from an environment variable of the README's table. */
export interface StandaloneConfig extends LimitConfig, RootKeySettings {
  readonly port: number;
  readonly host: string;
  /** Undefined: `./.vault`, or a place Postgres can reach when that one is closed to it. */
  readonly dataDir: string | undefined;
  /** Undefined: the embedded Postgres. */
  readonly databaseUrl: string | undefined;
  readonly logLevel: string;
  /** Private addresses (CIDRs) that reactor code and webhooks may reach, also by plain http. */
  readonly egressAllow?: readonly string[];
  /** User ids of the processes that run reactor code, where the vault is root. */
  readonly sandboxAccounts?: ReturnType<typeof readSandboxAccounts>;
  /** Name or user id of the account that a vault started as root takes; undefined: it stays root. */
  readonly account?: string | undefined;
  /** Undefined: nothing is traced. */
  readonly traces?: TraceSettings | undefined;
}

/** A setting or a circumstance that the operator can mend. The message is one line and names it. */
export class StandaloneError extends Error {
  readonly code = 'standalone_not_started';
}

const logLevels = ['debug', 'info', 'warn', 'error', 'silent'];

function readPort(text: string | undefined): number {
  if (text === undefined || text === '') return 8080;
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535)
    throw new StandaloneError('VAULT_PORT must be a number from 0 to 65535');
  return port;
}

function readDatabaseUrl(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined;
  if (!/^postgres(ql)?:\/\//.test(text))
    throw new StandaloneError('DATABASE_URL must begin with postgres://');
  if (!URL.canParse(text)) throw new StandaloneError('DATABASE_URL is not a valid URL');
  return text;
}

function readLogLevel(text: string | undefined): string {
  if (text === undefined || text === '') return 'info';
  if (!logLevels.includes(text))
    throw new StandaloneError(`VAULT_LOG_LEVEL must be one of ${logLevels.join(', ')}`);
  return text;
}

function explained<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (cause) {
    throw new StandaloneError(cause instanceof Error ? cause.message : 'a setting is wrong', { cause });
  }
}

/** @throws StandaloneError naming the variable */
export function readConfig(environment: NodeJS.ProcessEnv): StandaloneConfig {
  const { VAULT_DATA_DIR: dataDir, VAULT_HOST: host } = environment;
  return {
    port: readPort(environment.VAULT_PORT),
    host: host === undefined || host === '' ? '127.0.0.1' : host,
    dataDir: dataDir === undefined || dataDir === '' ? undefined : path.resolve(dataDir),
    databaseUrl: readDatabaseUrl(environment.DATABASE_URL),
    ...explained(() => readRootKeySettings(environment)),
    logLevel: readLogLevel(environment.VAULT_LOG_LEVEL),
    egressAllow: explained(() => readEgressAllow(environment)),
    account: environment.VAULT_ACCOUNT === '' ? undefined : environment.VAULT_ACCOUNT,
    sandboxAccounts: explained(() => readSandboxAccounts(environment)),
    ...explained(() => readLimits(environment)),
    traces: explained(() => readTraceSettings(environment)),
  };
}
