import { expect, it } from 'vitest';
import { fetchPage } from '../src/paging.ts';

const totalOf = async (page: number, counted: number, rows: readonly string[]) => {
  const found = await fetchPage(
    { page, size: 2 },
    () => Promise.resolve(counted),
    () => Promise.resolve(rows),
  );
  return [found.pagination.total_items, found.pagination.total_pages];
};

it('the total of a page is never smaller than the rows up to its end, also when some came after they were counted', async () => {
  expect(await totalOf(1, 1, ['b', 'a'])).toEqual([2, 1]);
  expect(await totalOf(2, 3, ['b', 'a'])).toEqual([4, 2]);
  expect(await totalOf(1, 9, ['b', 'a'])).toEqual([9, 5]);
  expect(await totalOf(1, 9, [])).toEqual([9, 5]);
  expect(await totalOf(3, 2, ['a'])).toEqual([2, 1]);
});
