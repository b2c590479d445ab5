/** The variables that the operator may see in the console. Addresses with passwords, and keys, are not among them. */
const shown = [
  'VAULT_HOST',
  'VAULT_PORT',
  'VAULT_DATA_DIR',
  'VAULT_LOG_LEVEL',
  'VAULT_STORAGE_PATH',
  'VAULT_CHECKPOINTS_FILE',
  'VAULT_HANDLING',
  'VAULT_TRUST_PROXY',
  'VAULT_RATE_LIMIT_PER_MINUTE',
  'VAULT_AUTH_FAILURES_PER_MINUTE',
  'VAULT_OPERATOR_TENANT',
  'VAULT_EGRESS_ALLOW',
  'VAULT_REACTOR_RUNS_PER_TENANT',
  'VAULT_SANDBOX_UIDS',
  'EVENT_STORE',
  'EVENTSTOREDB_STREAM_PREFIX',
  'INVOCATION_FEED',
  'KAFKA_TOPIC',
  'OTEL_TRACES_SAMPLER_ARG',
] as const;

export interface ShownSetting {
  readonly name: string;
  readonly value: string;
}

/** The settings that are set. The others have their defaults (docs/reference/configuration.md). */
export const readShownSettings = (environment: NodeJS.ProcessEnv): readonly ShownSetting[] =>
  shown.flatMap((name) => {
    const value = environment[name];
    return value === undefined || value === '' ? [] : [{ name, value }];
  });
