import { randomInt } from 'node:crypto';

/** A private application with all token permissions that sees tokens masked. */
export function plainApplication(overrides: object = {}) {
  return {
    name: 'backend',
    type: 'private',
    permissions: ['token:create', 'token:read', 'token:update', 'token:delete', 'token:search'],
    ...overrides,
  };
}

/** A private application whose rule shows the plaintext of tokens in `container` (by default all). */
export function revealingApplication(container = '/', overrides: object = {}) {
  const permissions = ['token:create', 'token:read', 'token:update', 'token:delete', 'token:search'];
  return {
    name: 'settlement',
    type: 'private',
    rules: [{ description: 'sees plaintext', priority: 1, container, transform: 'reveal', permissions }],
    ...overrides,
  };
}

export function cardToken(number = cardNumber(), overrides: object = {}) {
  return {
    type: 'card',
    data: { number, expiration_month: 12, expiration_year: 2040, cvc: '737' },
    ...overrides,
  };
}

/**
 * A random card number of 16 digits that passes the Luhn check. It is drawn from 10^14 numbers, so that no test gets
 * one twice.
 */
export function cardNumber(prefix = '4'): string {
  let body = prefix;
  while (body.length < 15) body += String(randomInt(10));
  return body + luhnDigit(body);
}

function luhnDigit(body: string): string {
  let sum = 0;
  for (const [index, digit] of [...body].reverse().entries()) {
    const doubled = Number(digit) * (index % 2 === 0 ? 2 : 1);
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return String((10 - (sum % 10)) % 10);
}
