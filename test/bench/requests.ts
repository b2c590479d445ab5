import { requestBytes } from './connection.ts';
import type { Job } from './job.ts';

const digits = (count: number): string =>
  Array.from({ length: count }, () => Math.floor(Math.random() * 10)).join('');

/** A Luhn-valid number, so that every card differs. */
function cardNumber(): string {
  const body = `4${digits(14)}`;
  let sum = 0;
  for (let index = 0; index < 15; index += 1) {
    const digit = Number(body[14 - index]);
    sum += index % 2 === 0 ? (digit > 4 ? digit * 2 - 9 : digit * 2) : digit;
  }
  return `${body}${(10 - (sum % 10)) % 10}`;
}

const card = () => ({
  type: 'card',
  data: { number: cardNumber(), expiration_month: 12, expiration_year: 2031, cvc: '123' },
  metadata: { order: digits(8) },
});

/** Tokens in one request of many. */
export const bulkSize = 1_000;

/** The bytes of the next request of a kind; each create has a card of its own, each read takes any of the tokens. */
export function nextRequest(job: Omit<Job, 'port' | 'connections' | 'seconds'>): string {
  const anyId = () => job.ids[Math.floor(Math.random() * job.ids.length)] ?? '';
  const requests: Record<Job['kind'], () => string> = {
    create: () => requestBytes('POST', '/tokens', job.key, card()),
    batch: () =>
      requestBytes('POST', '/tokens/batch', job.key, { tokens: Array.from({ length: bulkSize }, card) }),
    detokenize: () =>
      requestBytes('POST', '/detokenize', job.key, {
        cards: job.ids.slice(0, bulkSize).map((id) => `{{ ${id} }}`),
      }),
    read: () => requestBytes('GET', `/tokens/${anyId()}`, job.key),
    mixed: () => requests[Math.random() < 0.9 ? 'read' : 'create'](),
    list: () => requestBytes('GET', '/tokens?size=20', job.key),
    react: () =>
      requestBytes('POST', `/reactors/${job.reactorId ?? ''}/react`, job.key, {
        args: { card: `{{ ${anyId()} }}` },
      }),
    proxy: () =>
      requestBytes(
        'POST',
        '/proxy',
        job.key,
        { amount: 1000, number: `{{ ${anyId()} | json: '$.number' }}` },
        { 'SVC-PROXY-URL': job.destination ?? '' },
      ),
  };
  return requests[job.kind]();
}
