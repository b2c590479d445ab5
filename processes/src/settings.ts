import { isIP } from 'node:net';
import path from 'node:path';
import type { AccountRange } from '@token-vault/reactor-runner';
import type { TraceSettings } from '@token-vault/service-kit';
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

/** Of every process. docs/reference/configuration.md says what each variable means. */
export interface ProcessSettings extends DataSettings {
  readonly host: string;
  readonly port: number;
  readonly logLevel: string;
  /** Longest that a starting process waits for what it depends on. */
  readonly startWithinMs: number;
  /** OTEL_EXPORTER_OTLP_ENDPOINT; without it nothing is traced. */
  readonly traces: TraceSettings | undefined;
}

const port = z.coerce.number('is not a number').int('is not a port').min(0, 'is not a port').max(65_535, 'is not a port'); // prettier-ignore
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

const processVariables = z.object({
  DATABASE_URL: z
    .string('is missing')
    .regex(/^postgres(ql)?:\/\//, 'must begin with postgres://')
    .refine((text) => URL.canParse(text), 'is not a valid URL'),
  VAULT_HOST: z.string().default('127.0.0.1'),
  VAULT_PORT: port.default(8080),
  VAULT_LOG_LEVEL: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'], 'must be one of debug, info, warn, error, silent')
    .default('info'),
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

/** What is set to nothing is not set. */
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
export function readProcessSettings(environment: NodeJS.ProcessEnv): ProcessSettings {
  const variables = read(processVariables, environment);
  return {
    databaseUrl: variables.DATABASE_URL,
    eventStore: readEventStoreChoice(environment),
    host: variables.VAULT_HOST,
    port: variables.VAULT_PORT,
    logLevel: variables.VAULT_LOG_LEVEL,
    startWithinMs: variables.VAULT_START_TIMEOUT * 1000,
    traces: readTraceSettings(environment),
  };
}

/** @throws ConfigurationError */
export function readTraceSettings(environment: NodeJS.ProcessEnv): TraceSettings | undefined {
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

/**
 * Where the root key is. Never made here: two replicas that each made one would seal for nobody.
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
