/** The hidden data of each twin. Both pass every check and look the same under the author's masks. */
export interface Hidden {
  readonly pin: string;
  readonly number: string;
  readonly cvc: string;
  readonly salt: string;
}

export const hiddenOf: readonly [Hidden, Hidden] = [
  { pin: '1234', number: '4242424242424242', cvc: '123', salt: '5f3a-4b0c-91d7' },
  { pin: '9876', number: '4000000000024242', cvc: '987', salt: 'c2e8-77d1-0a46' },
];

/** Placeholders for the hidden data in requests of the author. */
export const placeholders = { pin: '$pin', number: '$number', cvc: '$cvc', salt: '$salt' } as const;

export const card = (number: string, cvc: string) => ({
  number,
  cvc,
  expiration_month: 1,
  expiration_year: 2040,
});
