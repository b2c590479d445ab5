import { createHash, randomInt } from 'node:crypto';
import { findTraces, tracesOf } from '../../e2e/traces.ts';

/** The place of a canary. */
export interface Planted {
  readonly operation: string;
  /** The name of the place in places.ts: `body.metadata.*`. */
  readonly place: string;
  readonly entrance: string;
  readonly caller: string;
  readonly number: string;
  /** The status of the answer. Undefined until there is one. */
  status?: number | undefined;
}

/** A canary that was found. */
export interface Found {
  /** Undefined when the form does not tell which canary it is. */
  readonly planted?: Planted;
  readonly form: string;
}

const prefixLength = 10;
const serialLength = 5;

function luhnDigit(body: string): string {
  const sum = [...body].reverse().reduce((total, digit, index) => {
    const doubled = Number(digit) * (index % 2 === 0 ? 2 : 1);
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return String((10 - (sum % 10)) % 10);
}

const algorithms = ['md5', 'sha1', 'sha256', 'sha512'] as const;
/** The number of characters that identify a digest in hex or base64. */
const knownLength = 16;

/**
 * Card numbers that pass the Luhn check. All numbers of one flock begin with the same ten digits, so that one search
 * finds them all. The other digits identify the number.
 */
export class Canaries {
  readonly prefix: string;
  readonly #planted: Planted[] = [];
  readonly #digests = new Map<string, Planted>();

  constructor(firstDigit: string) {
    this.prefix = firstDigit;
    while (this.prefix.length < prefixLength) this.prefix += String(randomInt(10));
  }

  get planted(): readonly Planted[] {
    return this.#planted;
  }

  plant(where: Omit<Planted, 'number' | 'status'>): Planted {
    const serial = String(this.#planted.length).padStart(serialLength, '0');
    const body = this.prefix + serial;
    const planted: Planted = { ...where, number: body + luhnDigit(body) };
    this.#planted.push(planted);
    for (const algorithm of algorithms) {
      const digest = createHash(algorithm).update(planted.number).digest();
      for (const encoding of ['hex', 'base64'] as const)
        this.#digests.set(digest.toString(encoding).slice(0, knownLength), planted);
    }
    return planted;
  }

  /** The canaries whose digits are in the text, with or without separators or percent-encoding. */
  #readable(text: string): Found[] {
    const digits = [...this.prefix].map((digit) => `(?:${digit}|%3${digit})`).join('[ ._-]?');
    const more = `(?:[ ._-]?(?:[0-9]|%3[0-9])){${serialLength + 1}}`;
    return [...text.matchAll(new RegExp(`${digits}${more}`, 'g'))].map(([written]) => {
      const number = written.replaceAll('%3', '').replaceAll(/\D/g, '');
      const planted = this.#planted[Number(number.slice(prefixLength, prefixLength + serialLength))];
      return { ...(planted && { planted }), form: 'digits' };
    });
  }

  /** Unkeyed hashes, which can be reversed by trying all numbers. */
  #hashed(text: string): Found[] {
    const found: Found[] = [];
    for (const [run] of text.matchAll(/[A-Za-z0-9+/]{16,}/g)) {
      const planted = this.#digests.get(run.slice(0, knownLength));
      if (planted) found.push({ planted, form: 'an unkeyed hash' });
    }
    return found;
  }

  /** All canaries of this flock in a text. */
  in(text: string): Found[] {
    const readable = this.#readable(text);
    const others = this.formsIn(Buffer.from(text)).filter((form) => !form.startsWith('joined'));
    return [...readable, ...this.#hashed(text), ...others.map((form) => ({ form }))];
  }

  /** The forms of this flock in these bytes, without the single numbers. */
  formsIn(bytes: Buffer): string[] {
    return findTraces(tracesOf(this.prefix), bytes);
  }
}
