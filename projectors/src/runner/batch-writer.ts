import type { Position, RecordedEvent } from '@token-vault/event-store';
import type { Projection } from '../projection.ts';
import { BatchFold } from './fold.ts';
import type { CheckpointAdvancer } from './checkpoint-advancer.ts';
import type { Session } from './session.ts';
import { Applier, stagingTables } from './staging.ts';
import { compile, statement, type Statement } from './statements.ts';
import { advanceVerification } from './verified-position.ts';
import {
  closedAmong,
  forgetClosed,
  latestEndOf,
  stagedEventOf,
  stagedPage,
  Transactions,
  type EndingEvent,
  type StagedRow,
} from './transactions.ts';

/** The read model that is written: the live one, or its successor, which replaces it or is compared with it. */
export interface Target {
  readonly projection: Projection;
  readonly generation: number;
  readonly kind: 'live' | 'swap' | 'verify';
  /** Moves the checkpoint when a stretch has no changes to write. When absent, the session moves it. */
  readonly checkpointAdvancer?: CheckpointAdvancer;
}

/** The statements after those of the events. */
function afterwards(events: readonly RecordedEvent[]): Statement[] {
  const latest = latestEndOf(events);
  return latest === undefined ? [] : [forgetClosed(latest)];
}

/** Writes stretches of the log to one read model, each in one fenced transaction. One stretch at a time. */
export class BatchWriter {
  readonly #session: Session;
  readonly #target: Target;
  readonly #transactions = new Transactions();
  #position: Position;
  /** The stretch being written. This promise never rejects: the next call throws the error. */
  #underWay: Promise<unknown> = Promise.resolve();

  constructor(session: Session, target: Target, position: Position) {
    this.#session = session;
    this.#target = target;
    this.#position = position;
  }

  /** All events up to here are committed or being written. */
  get position(): Position {
    return this.#position;
  }

  /**
   * Begins to apply the events after the present position, up to `to`. An empty stretch moves the checkpoint.
   * Resolves when the stretch before is committed, so that the next one can be prepared while Postgres works on this
   * one.
   * @throws the error of the stretch before, or of preparing this one. The database is then at the last commit.
   */
  async write(events: readonly RecordedEvent[], to: Position): Promise<void> {
    const unknown = this.#transactions.unknownOf(events);
    if (unknown.length > 0) await this.#lookUp(unknown);
    const fold = new BatchFold(this.#target.projection, stagingTables);
    const applier = new Applier(this.#target.projection, fold, this.#transactions);
    if (events.some((event) => applier.isCommitToRead(event))) {
      await this.#underWay;
      await this.#session.transactionOf(this.#inParts(events, to, applier, fold));
    } else {
      for (const event of events) applier.apply(event);
      const statements = [...compile(fold.steps()), ...afterwards(events)];
      await this.#underWay;
      this.#underWay = this.#send(statements, to);
      this.#underWay.catch(() => undefined);
    }
    this.#transactions.forget(unknown);
    this.#position = to;
  }

  /** Reads the staged events of commits part by part, so that memory does not depend on their number and size. */
  async *#inParts(
    events: readonly RecordedEvent[],
    to: Position,
    applier: Applier,
    fold: BatchFold,
  ): AsyncGenerator<readonly Statement[]> {
    yield [this.#fence(to)];
    for (const event of events) {
      if (!applier.isCommitToRead(event)) {
        applier.apply(event);
        continue;
      }
      // Some events of the transaction may be of this batch: they are stored before they are read.
      yield compile(fold.steps());
      let ordinal = 0;
      for await (const rows of this.#stagedPages(event)) {
        ordinal = applier.applyStaged(rows.map(stagedEventOf), event, ordinal);
        yield compile(fold.steps());
      }
      applier.end(event, ordinal);
    }
    yield [...compile(fold.steps()), ...afterwards(events)];
  }

  async *#stagedPages({ data }: EndingEvent): AsyncGenerator<readonly StagedRow[]> {
    for (let after: string | undefined = '0'; after !== undefined;) {
      const rows: StagedRow[] = await this.#session.query<StagedRow>(stagedPage(data.transaction_id, after));
      if (rows.length > 0) yield rows;
      after = rows.at(-1)?.position;
    }
  }

  #send(statements: readonly Statement[], to: Position): Promise<unknown> {
    const { projection, generation, checkpointAdvancer } = this.#target;
    if (statements.length > 0 || !checkpointAdvancer)
      return this.#session.transaction([this.#fence(to), ...statements]);
    return checkpointAdvancer.advance({ name: projection.name, generation, from: this.#position, to });
  }

  /** Resolves when all stretches are committed. Throws when one cannot be committed. */
  async settle(): Promise<void> {
    await this.#underWay;
  }

  async #lookUp(ids: readonly string[]): Promise<void> {
    await this.#underWay;
    // These rows cannot change between this read and the transaction: the fence of the transaction would refuse.
    const closed = await this.#session.query<{ id: string }>(closedAmong(ids));
    for (const { id } of closed) this.#transactions.closed.add(id);
  }

  /**
   * Moves the checkpoint. A live projection also notifies waiting services: Postgres delivers the notification after
   * the commit.
   */
  #fence(to: Position): Statement {
    const { projection, generation, kind } = this.#target;
    const values = [projection.name, generation, this.#position, to];
    if (kind === 'swap') return statement('select projections.advance_rebuild($1, $2, $3, $4)', values);
    if (kind === 'verify') return advanceVerification(projection.name, generation, to);
    const news = `${projection.name}:${to}`;
    return statement("select projections.advance($1, $2, $3, $4), pg_notify('projection_progress', $5)", [
      ...values,
      news,
    ]);
  }
}
