import type { Json } from '@token-vault/contracts';
import { expect } from 'vitest';
import type { Told } from './asked.ts';
import { cells, pages } from './cells.ts';
import type { Rules } from './expected.ts';
import type { Hidden } from './hidden.ts';
import { states } from './states.ts';

/** The answers by request. A request may be answered more than once. */
export type Answers = ReadonlyMap<string, readonly Told[]>;

const ids = Object.keys(states);

const statusIn = ({ status }: Told, usual: number): number => status ?? usual;
const usualOf = { read: 200, patch: 200, create: 201, delete: 204 } as const;

/** The answers to requests about all tokens are those of the rules. */
export function checkPages(told: Answers, rules: Rules, hidden: Hidden): void {
  for (const [name, { permission }] of Object.entries(pages))
    for (const each of told.get(name) ?? []) {
      expect([name, statusIn(each, 200)]).toEqual([name, rules.statusOfAsking(permission)]);
      if (statusIn(each, 200) !== 200) continue;
      const { pagination, data } = each.body as {
        pagination: { total_items: number };
        data: { id: string; data?: Json }[];
      };
      const visible = rules.visible(permission);
      expect([name, pagination.total_items]).toEqual([name, visible.length]);
      expect(Object.fromEntries(data.map((token) => [token.id, token.data]))).toEqual(
        Object.fromEntries(visible.map((id) => [id, rules.dataOf(id, permission, hidden)])),
      );
    }
}

/** The answers to requests about one token are those of the rules. */
export function checkCells(told: Answers, rules: Rules, hidden: Hidden): void {
  for (const [name, cell] of Object.entries(cells))
    for (const id of ids)
      for (const [time, each] of (told.get(`${name} ${id}`) ?? []).entries()) {
        const status = rules.statusOf(cell, id);
        // A deletion is executed again for every key.
        const expected = time > 0 && status === 204 ? 404 : status;
        expect([name, id, statusIn(each, usualOf[cell.kind])]).toEqual([name, id, expected]);
        if (cell.kind === 'read' && expected === 200)
          expect([id, (each.body as { data?: Json }).data]).toEqual([
            id,
            rules.dataOf(id, cell.permission, hidden),
          ]);
      }
}
