import {
  readCheckpointsFile,
  readCommonSettings,
  readDatabaseUrl,
  readEgressAllow,
  readRunsPerTenant,
  readSandboxAccounts,
  readLimits,
  readRootKeySettings,
  type CommonSettings,
  type LimitConfig,
  type RootKeySettings,
} from '@token-vault/processes';
import path from 'node:path';

/** The settings of a standalone vault. Each comes from an environment variable of the README's table. */
export interface StandaloneConfig extends CommonSettings, LimitConfig, RootKeySettings {
  /** Undefined: `./.vault`, or another place when Postgres cannot reach that one. */
  readonly dataDir: string | undefined;
  /** Undefined: the embedded Postgres. */
  readonly databaseUrl: string | undefined;
  /** VAULT_CHECKPOINTS_FILE. Undefined: in the data directory. */
  readonly checkpointsFile?: string | undefined;
  /** Private addresses (CIDRs) that reactor code and webhooks may reach, also by plain http. */
  readonly egressAllow?: readonly string[];
  /** User ids of the processes that run reactor code, where the vault is root. */
  readonly sandboxAccounts?: ReturnType<typeof readSandboxAccounts>;
  /** The most runs of one tenant at once. */
  readonly runsPerTenant?: number;
  /** The name or user id of the account that a vault started as root switches to. Undefined: it stays root. */
  readonly account?: string | undefined;
}

/** A setting or a condition that the operator can correct. The message is one line and names it. */
export class StandaloneError extends Error {
  readonly code = 'standalone_not_started';
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
  const { VAULT_DATA_DIR: dataDir } = environment;
  return {
    ...explained(() => readCommonSettings(environment)),
    dataDir: dataDir === undefined || dataDir === '' ? undefined : path.resolve(dataDir),
    databaseUrl: explained(() => readDatabaseUrl(environment)),
    checkpointsFile: readCheckpointsFile(environment),
    ...explained(() => readRootKeySettings(environment)),
    egressAllow: explained(() => readEgressAllow(environment)),
    account: environment.VAULT_ACCOUNT === '' ? undefined : environment.VAULT_ACCOUNT,
    sandboxAccounts: explained(() => readSandboxAccounts(environment)),
    runsPerTenant: explained(() => readRunsPerTenant(environment)),
    ...explained(() => readLimits(environment)),
  };
}
