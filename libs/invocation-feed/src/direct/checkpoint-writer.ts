import type { Position } from '@token-vault/event-store';
import type { CheckpointStore } from '../port.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { Backoff } from '../backoff.ts';

/**
 * All events of the log pass here, and few of them are invocations. After a crash the feed delivers some invocations again; their claims
 * prevent a second run.
 */
const restMs = 250;

/** Saves the newest position in the background, one save at a time: positions that arrive meanwhile are saved by the next one. */
export class CheckpointWriter {
  readonly #checkpoints: CheckpointStore;
  readonly #onTrouble: (error: unknown) => void;
  readonly #backoff: Backoff;
  readonly #signal: AbortSignal;
  #saved: Position;
  #newest: Position;
  #saving: Promise<void> | undefined;

  constructor(
    checkpoints: CheckpointStore,
    saved: Position,
    signal: AbortSignal,
    onTrouble: (error: unknown) => void,
  ) {
    this.#checkpoints = checkpoints;
    this.#onTrouble = onTrouble;
    this.#signal = signal;
    this.#backoff = new Backoff(signal);
    this.#saved = this.#newest = saved;
  }

  note(position: Position): void {
    this.#newest = position;
    this.#saving ??= this.#save().finally(() => (this.#saving = undefined));
  }

  /** Resolves when the newest position is saved, or cannot be saved: after the end of the feed there is one attempt. */
  async flush(): Promise<void> {
    await this.#saving;
    if (this.#saved !== this.#newest) await this.#save();
  }

  async #save(): Promise<void> {
    while (this.#saved !== this.#newest) {
      const position = this.#newest;
      try {
        await this.#checkpoints.save(position);
        this.#saved = position;
        this.#backoff.succeed();
        await sleep(restMs, undefined, { signal: this.#signal }).catch(() => undefined);
      } catch (error) {
        this.#onTrouble(error);
        if (this.#signal.aborted) return;
        await this.#backoff.pause();
      }
    }
  }
}
