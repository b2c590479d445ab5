/** Server settings by name; values as in postgresql.conf. */
export type PostgresSettings = Readonly<Record<string, string | number | boolean>>;

/** Durable, ≤ 400 MB in total, low latency. All are set at every start, so a release can change them. */
const defaults: PostgresSettings = {
  // The event log is the only source of truth: its durability is never reduced.
  fsync: true,
  full_page_writes: true,
  synchronous_commit: true,
  // `replica` instead of `minimal`, so that a base backup can be taken without a restart.
  wal_level: 'replica',
  max_wal_senders: 3,
  max_wal_size: '512MB',
  min_wal_size: '96MB',
  checkpoint_timeout: '10min',
  shared_buffers: '48MB',
  wal_buffers: '4MB',
  work_mem: '4MB',
  maintenance_work_mem: '48MB',
  effective_cache_size: '256MB',
  // More than the pools of the vault: commands such as `vault export` run beside it, several at once. Three are the superuser's.
  max_connections: 63,
  // Short queries by key only: parallel workers and compilation would cost more than they save.
  max_parallel_workers_per_gather: 0,
  jit: false,
  io_method: 'sync',
  random_page_cost: 1.1,
  autovacuum: true,
  autovacuum_max_workers: 2,
  idle_in_transaction_session_timeout: '60s',
  // The owner of a database could create those that Postgres trusts, with libraries and languages that the vault does not use.
  extension_control_path: '/nonexistent',
  timezone: 'UTC',
  lc_messages: 'C',
};

/**
 * No stored data may reach Postgres' own log. An ERROR can quote a value (`invalid input syntax for type uuid: "…"`) and its DETAIL a whole
 * row. So the threshold `log` sends errors to the client only, and `terse` drops every detail.
 */
const silence: PostgresSettings = {
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_statement: 'none',
  log_min_duration_statement: -1,
  log_parameter_max_length: 0,
  log_parameter_max_length_on_error: 0,
  log_lock_waits: false,
  log_checkpoints: false,
  log_line_prefix: '',
  logging_collector: false,
  log_destination: 'stderr',
  log_timezone: 'UTC',
};

/** The `-c name=value` arguments of `postgres`. The settings that keep data out of logs cannot be overridden. */
export function settingArguments(
  socketDirectory: string,
  port: number | undefined,
  overrides: PostgresSettings = {},
): string[] {
  const settings = {
    ...defaults,
    ...overrides,
    ...silence,
    listen_addresses: port === undefined ? '' : '127.0.0.1',
    port: port ?? socketPort,
    unix_socket_directories: `"${socketDirectory.replaceAll('"', '""')}"`,
    unix_socket_permissions: '0700',
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${setting(value)}`]);
}

/** Only part of the socket file's name: each data directory has a socket directory of its own, so names cannot collide. */
export const socketPort = 5432;

function setting(value: string | number | boolean): string {
  return typeof value === 'boolean' ? (value ? 'on' : 'off') : String(value);
}
