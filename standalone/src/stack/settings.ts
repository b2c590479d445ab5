import {
  ConfigurationError,
  readEventStoreChoice,
  readFeedChoice,
  type EventStoreChoice,
  type FeedChoice,
} from '@token-vault/processes';
import { readConfig, type StandaloneConfig } from '../config.ts';

/** The settings of a standalone vault, and those of a stack of separate processes. */
export interface StackSettings extends StandaloneConfig {
  readonly eventStore: EventStoreChoice;
  readonly feed: FeedChoice;
  /** The number of replicas of each service. */
  readonly replicas: number;
}

/** @throws StandaloneError, ConfigurationError naming the variable */
export function readStackSettings(environment: NodeJS.ProcessEnv): StackSettings {
  const { VAULT_STACK_REPLICAS: replicas } = environment;
  if (replicas && !/^[1-9]$/.test(replicas))
    throw new ConfigurationError('VAULT_STACK_REPLICAS must be a number from 1 to 9');
  return {
    ...readConfig(environment),
    eventStore: readEventStoreChoice(environment),
    feed: readFeedChoice(environment),
    replicas: replicas ? Number(replicas) : 2,
  };
}
