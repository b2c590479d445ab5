import { ValidationError } from '@token-vault/contracts';
import { limits } from '@token-vault/expressions';
import { DataDependentError, type MadeOf } from '@token-vault/operations';
import type { OpenRow } from './row.ts';
import type { GrantedToken } from './show.ts';

/** The largest page of tokens, in bytes. One token alone always fits: data is at most 512 KiB. */
const maxPageBytes = 4 * 1024 * 1024;
/** Bytes for the ids, times and field names of one token. */
const restBytes = 600;

const lengthOf = (text: string | null | undefined): number => text?.length ?? 0;

/**
 * The approximate size of a token in the answer, in bytes. The size of the data counts only where the data is shown:
 * otherwise the refusal would tell the caller the size of hidden data (ADR 18). The output of masks has a limit of
 * its own for the request (ADR 22).
 */
function bytesOf({ row, transform }: GrantedToken<OpenRow>): number {
  // Sealed values are base64url text.
  const data =
    transform === 'reveal' ? ((row.data_length ?? lengthOf(row.data)) + lengthOf(row.cvc)) * 0.75 : 0;
  return restBytes + data + lengthOf(row.mask) + lengthOf(row.metadata) + lengthOf(row.search_indexes);
}

/** The time that the thread takes to decide about a token, record it and write it, about. */
const msOfToken = 0.2;
/** The bytes of data that it opens in a millisecond, as they are sealed. A mask may read each character several times. */
const bytesOfMs = { reveal: 64 * 1024, mask: 10 * 1024, redact: Infinity };
/**
 * The same for masks of longer data. Their filters work in a thread of their own (ADR 22), so this thread only opens the data and copies it: 2.5 ms for 500 KB. With
 * `bytesOfMs`, twenty such tokens of a public key made the lists of a backend wait until they were 503.
 */
const bytesOfMsInWorker = 256 * 1024;
/** The characters of JSON that it reads and writes in a millisecond. Where a mask is shown, it is evaluated too, and its output written: 14,000 of many small values. */
const charsOfMs = 64 * 1024;
const charsOfMaskMs = { reveal: charsOfMs, mask: 16 * 1024, redact: charsOfMs };

function msOfData({ row, transform }: GrantedToken): number {
  const length = lengthOf(row.data) + lengthOf(row.cvc);
  const isForWorker = transform === 'mask' && length > limits.threadSteps;
  return length / (isForWorker ? bytesOfMsInWorker : bytesOfMs[transform]);
}

/** The time that the thread takes for a page, about, in milliseconds. Data that is not opened does not count (ADR 18). */
export const workOf = (tokens: readonly GrantedToken[]): number =>
  tokens.reduce(
    (ms, { row, transform }) =>
      ms +
      msOfToken +
      msOfData({ row, transform }) +
      lengthOf(row.mask) / charsOfMaskMs[transform] +
      (lengthOf(row.metadata) + lengthOf(row.search_indexes)) / charsOfMs,
    0,
  );

/** Counts the tokens of one answer against its largest size, before anything is opened. */
export class PageBytes {
  #total = 0;
  #count = 0;

  /** Whether the token still fits; the first one always does. */
  fits(token: GrantedToken<OpenRow>): boolean {
    this.#count += 1;
    this.#total += bytesOf(token);
    return this.#total <= maxPageBytes || this.#count === 1;
  }
}

/**
 * Gives the tokens unchanged when the page is small enough. The check comes before anything is opened or recorded. A
 * page is never cut short, because page numbers would then change their meaning.
 * @param madeOf the tokens of the page: the size of their data decides how many fit
 * @throws DataDependentError that names `size` and says how many tokens fit
 */
export function requireSmallPage(tokens: readonly GrantedToken<OpenRow>[], madeOf: MadeOf): void {
  const bytes = new PageBytes();
  const fitting = tokens.findIndex((token) => !bytes.fits(token));
  if (fitting < 0) return;
  const message = `gives a page of more than 4 MiB here: ask for at most ${fitting}`;
  throw new DataDependentError(ValidationError.of('size', message), madeOf);
}
