import { describe, expect, it } from 'vitest';
import { createApplicationBody, updateTenantBody } from '../src/index.ts';

describe('the setting data_misses_per_minute', () => {
  const errorsOf = (value: string) => {
    const body = { name: 'Acme', settings: { data_misses_per_minute: value, other: 'x' } };
    return updateTenantBody.safeParse(body).error?.issues.map(({ path }) => path.join('.'));
  };

  it.each(['0', '1', '9999999'])('may be %s', (value) => {
    expect(errorsOf(value)).toBeUndefined();
  });

  it.each(['', '-1', '1.5', '007', '1e3', 'many', '10000000'])('may not be %o', (value) => {
    expect(errorsOf(value)).toEqual(['settings.data_misses_per_minute']);
  });
});

it.each([
  ['true', undefined],
  ['false', undefined],
  ['yes', ['settings.count_data_hits']],
  ['', ['settings.count_data_hits']],
])('the setting count_data_hits with %o', (value, faults) => {
  const body = { name: 'Acme', settings: { count_data_hits: value } };
  expect(updateTenantBody.safeParse(body).error?.issues.map(({ path }) => path.join('.'))).toEqual(faults);
});

it.each([
  ['Count_Data_Hits', 'count_data_hits'],
  [' fingerprint_tokens', 'fingerprint_tokens'],
  ['data-misses-per-minute', 'data_misses_per_minute'],
])('a setting of the vault cannot have the name %o', (name, right) => {
  const body = { name: 'Acme', settings: { [name]: 'true', [`my_${right}`]: 'mine' } };
  const issues = updateTenantBody.safeParse(body).error?.issues.map(({ path, message }) => [path, message]);
  expect(issues).toEqual([[['settings', name], `must have the name ${right}`]]);
});

it('a rule may forbid searches by data', () => {
  const rule = {
    priority: 1,
    container: '/',
    transform: 'mask',
    permissions: ['token:search'],
    search_data: false,
  };
  const parsed = createApplicationBody.parse({ name: 'a', type: 'private', rules: [rule] });
  expect(parsed.rules?.[0]?.search_data).toBe(false);
});
