import { isIP } from 'node:net';
import path from 'node:path';
import { defaultRunsPerTenant, type AccountRange } from '@token-vault/reactor-runner';
import type { TraceSettings } from '@token-vault/observability';
import { z } from 'zod';
import type { DataSettings } from './data.ts';
import { readLimits, type LimitConfig } from './limits.ts';
import type { FeedChoice } from './reactors/feed.ts';
import { readRootKeySettings } from './root-key-settings.ts';
import type { RootKeySources } from './root-keys.ts';

/** A setting is wrong or missing. The message is one line that names the variable, without its value. */
export class ConfigurationError extends Error {
  readonly code = 'configuration_invalid';
}

/** Settings of every process and of a standalone vault. docs/reference/configuration.md describes each variable. */
export interface CommonSettings {
  readonly host: string;
  readonly port: number;
  readonly logLevel: string;
  /** VAULT_STORAGE_PATH: a directory on the disk of the database. Undefined: this process does not see that disk. */
  readonly storagePath?: string | undefined;
  /** OTEL_EXPORTER_OTLP_ENDPOINT. When absent, nothing is traced. */
  readonly traces?: TraceSettings | undefined;
}

/** Settings of every process. */
export interface ProcessSettings extends DataSettings, CommonSettings {
  /** The longest time for which a starting process waits for its dependencies. */
  readonly startWithinMs: number;
}

const port = z
  .string()
  .regex(/^\d{1,5}$/, 'must be a number from 0 to 65535')
  .transform(Number)
  .refine((number) => number <= 65_535, 'must be a number from 0 to 65535');
const list = z.string().transform((text) =>
  text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== ''),
);

function isCidr(entry: string): boolean {
  const [address = '', prefix = '0', ...rest] = entry.split('/');
  const bits = [32, 128][[4, 6].indexOf(isIP(address))] ?? -1;
  return /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits && rest.length === 0;
}

const storeVariables = z.object({
  EVENT_STORE: z.enum(['postgres', 'eventstoredb'], 'must be postgres or eventstoredb').default('postgres'),
  EVENTSTOREDB_URL: z
    .string()
    .regex(/^esdb(\+discover)?:\/\//, 'must begin with esdb:// or esdb+discover://')
    .optional(),
  EVENTSTOREDB_STREAM_PREFIX: z
    .string()
    .regex(/^\w{1,32}\.$/, 'must be 1 to 32 letters, digits or underscores, and a dot')
    .optional(),
});

const databaseVariables = z.object({
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must begin with postgres://')
    .refine((text) => URL.canParse(text), 'is not a valid URL')
    .optional(),
});

const commonVariables = z.object({
  VAULT_HOST: z.string().default('127.0.0.1'),
  VAULT_PORT: port.default(8080),
  VAULT_STORAGE_PATH: z.string().regex(/^\//, 'must be an absolute path').optional(),
  VAULT_LOG_LEVEL: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'], 'must be one of debug, info, warn, error, silent')
    .default('info'),
});

const processVariables = z.object({
  VAULT_START_TIMEOUT: z.coerce.number('must be seconds').min(0, 'must be seconds').default(60),
});

const egressVariables = z.object({
  VAULT_EGRESS_ALLOW: list
    .refine((entries) => entries.every(isCidr), 'must be addresses or CIDRs, separated by commas')
    .default([]),
});

const sandboxVariables = z.object({
  VAULT_SANDBOX_UIDS: z
    .string()
    .regex(/^\d{1,10}-\d{1,10}$/, 'must be two user ids with a hyphen between')
    .transform((text) => text.split('-').map(Number))
    .transform(([first = 0, last = 0]) => ({ first, last }))
    .refine(({ first, last }) => first > 0 && last < 2 ** 32 - 1, 'must be user ids other than that of root')
    .refine(({ first, last }) => last - first >= 15, 'must be at least 16 user ids')
    .optional(),
});

const runVariables = z.object({
  VAULT_REACTOR_RUNS_PER_TENANT: z
    .string()
    .regex(/^[1-9]\d?$/, 'must be a whole number from 1 to 48')
    .transform(Number)
    .refine((runs) => runs <= 48, 'must be a whole number from 1 to 48')
    .optional(),
});

const traceVariables = z.object({
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .string()
    .regex(/^https?:\/\//, 'must begin with http:// or https://')
    .refine((text) => URL.canParse(text), 'is not a valid URL')
    .optional(),
  OTEL_TRACES_SAMPLER_ARG: z.coerce
    .number('must be from 0 to 1')
    .min(0, 'must be from 0 to 1')
    .max(1, 'must be from 0 to 1')
    .default(1),
});

const feedVariables = z.object({
  INVOCATION_FEED: z.enum(['direct', 'kafka'], 'must be direct or kafka').default('direct'),
  KAFKA_BROKERS: list
    .refine(
      (brokers) => brokers.every((each) => /^[^:\s]+:\d{1,5}$/.test(each)),
      'must be host:port, separated by commas',
    )
    .default([]),
  KAFKA_TOPIC: z
    .string()
    .regex(/^[\w.-]{1,200}$/, 'is not the name of a topic')
    .default('token-vault.invocations'),
});

/** An empty variable counts as unset. */
function read<Shape extends z.ZodObject>(shape: Shape, environment: NodeJS.ProcessEnv): z.output<Shape> {
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
  const result = shape.safeParse(given);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new ConfigurationError(`${String(issue?.path[0])} ${issue?.message}`);
}

function explained<Result>(readIt: () => Result): Result {
  try {
    return readIt();
  } catch (cause) {
    throw new ConfigurationError(cause instanceof Error ? cause.message : 'a setting is wrong', { cause });
  }
}

/** @throws ConfigurationError */
export function readEventStoreChoice(environment: NodeJS.ProcessEnv): DataSettings['eventStore'] {
  const {
    EVENT_STORE: kind,
    EVENTSTOREDB_URL: connectionString,
    EVENTSTOREDB_STREAM_PREFIX: streamPrefix,
  } = read(storeVariables, environment);
  if (kind === 'postgres') return { kind };
  if (connectionString === undefined)
    throw new ConfigurationError('EVENTSTOREDB_URL is missing: EVENT_STORE is eventstoredb');
  return { kind, connectionString, streamPrefix };
}

/** @throws ConfigurationError */
export function readDatabaseUrl(environment: NodeJS.ProcessEnv): string | undefined {
  return read(databaseVariables, environment).DATABASE_URL;
}

/** @throws ConfigurationError */
export function readCommonSettings(environment: NodeJS.ProcessEnv): CommonSettings {
  const variables = read(commonVariables, environment);
  return {
    host: variables.VAULT_HOST,
    port: variables.VAULT_PORT,
    logLevel: variables.VAULT_LOG_LEVEL,
    storagePath: variables.VAULT_STORAGE_PATH,
    traces: readTraceSettings(environment),
  };
}

/** @throws ConfigurationError */
export function readProcessSettings(environment: NodeJS.ProcessEnv): ProcessSettings {
  const databaseUrl = readDatabaseUrl(environment);
  if (databaseUrl === undefined) throw new ConfigurationError('DATABASE_URL is missing');
  return {
    ...readCommonSettings(environment),
    databaseUrl,
    eventStore: readEventStoreChoice(environment),
    startWithinMs: read(processVariables, environment).VAULT_START_TIMEOUT * 1000,
  };
}

function readTraceSettings(environment: NodeJS.ProcessEnv): TraceSettings | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_TRACES_SAMPLER_ARG: share } = read(
    traceVariables,
    environment,
  );
  return endpoint === undefined ? undefined : { endpoint, share };
}

/** @throws ConfigurationError */
export function readLimitSettings(environment: NodeJS.ProcessEnv): LimitConfig {
  return explained(() => readLimits(environment));
}

/** @throws ConfigurationError */
export function readEgressAllow(environment: NodeJS.ProcessEnv): readonly string[] {
  return read(egressVariables, environment).VAULT_EGRESS_ALLOW;
}

/** @throws ConfigurationError */
export function readSandboxAccounts(environment: NodeJS.ProcessEnv): AccountRange | undefined {
  return read(sandboxVariables, environment).VAULT_SANDBOX_UIDS;
}

/** @throws ConfigurationError */
export function readRunsPerTenant(environment: NodeJS.ProcessEnv): number {
  return read(runVariables, environment).VAULT_REACTOR_RUNS_PER_TENANT ?? defaultRunsPerTenant;
}

/** @throws ConfigurationError */
export function readFeedChoice(environment: NodeJS.ProcessEnv): FeedChoice {
  const {
    INVOCATION_FEED: kind,
    KAFKA_BROKERS: brokers,
    KAFKA_TOPIC: topic,
  } = read(feedVariables, environment);
  if (kind === 'direct') return { kind };
  if (brokers.length === 0)
    throw new ConfigurationError('KAFKA_BROKERS is missing: INVOCATION_FEED is kafka');
  return { kind, brokers, topic };
}

/** VAULT_CHECKPOINTS_FILE. Undefined: the sealer knows its last checkpoints as long as the process lives. */
export function readCheckpointsFile({ VAULT_CHECKPOINTS_FILE: file }: NodeJS.ProcessEnv): string | undefined {
  return file ? path.resolve(file) : undefined;
}

/**
 * The place of the root key. Services never create it: two replicas that each created one could not open each other's
 * data.
 * @throws ConfigurationError
 */
export function readRootKeySources(environment: NodeJS.ProcessEnv): RootKeySources {
  const settings = explained(() => readRootKeySettings(environment));
  const { VAULT_ROOT_KEY_FILE: file } = environment;
  if (settings.rootKey === undefined && settings.transit === undefined && !file)
    throw new ConfigurationError(
      'VAULT_ROOT_KEY is missing: set it, or VAULT_ROOT_KEY_FILE, or VAULT_ROOT_KEY_TRANSIT_URL',
    );
  return { ...settings, rootKeyFile: path.resolve(file || 'root.key'), isRootKeyGiven: true };
}
