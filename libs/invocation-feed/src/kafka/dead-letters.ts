import type { Message, Producer } from 'kafkajs';
import type { DeadLetter } from '../port.ts';
import { createProducer, type KafkaConnection } from './connection.ts';
import { invocationMessage } from './message.ts';
import { deadLetterTopic } from './topics.ts';

interface DeadLettersOptions {
  readonly connection: KafkaConnection;
  readonly topic: string;
  readonly onDeadLetter: (letter: DeadLetter) => Promise<void>;
}

/** A dead letter whose message could not be read, with the original message. */
export interface MalformedLetter extends DeadLetter {
  readonly message: Pick<Message, 'key' | 'value'>;
}

/** Writes invocations that were given up to the dead-letter topic for an operator, and records them. */
export class DeadLetters {
  readonly #options: DeadLettersOptions;
  #producer: Producer | undefined;

  constructor(options: DeadLettersOptions) {
    this.#options = options;
  }

  async send(letter: DeadLetter | MalformedLetter): Promise<void> {
    const { invocation, reason, attempts, error } = letter;
    const message = invocation
      ? invocationMessage(invocation)
      : { value: null, ...('message' in letter && letter.message) };
    const headers = { reason, error, attempts: String(attempts) };
    const producer = await this.#connect();
    try {
      const topic = deadLetterTopic(this.#options.topic);
      await producer.send({ topic, messages: [{ ...message, headers }], acks: -1 });
    } catch (failure) {
      this.#producer = undefined;
      await producer.disconnect().catch(() => undefined);
      throw failure;
    }
    await this.#options.onDeadLetter({ invocation, reason, attempts, error });
  }

  async close(): Promise<void> {
    await this.#producer?.disconnect().catch(() => undefined);
  }

  async #connect(): Promise<Producer> {
    if (this.#producer) return this.#producer;
    const producer = createProducer(this.#options.connection);
    await producer.connect();
    return (this.#producer ??= producer);
  }
}
