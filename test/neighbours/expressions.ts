import { waitUntil } from '@token-vault/test-support';
import { makeCaller, publicCaller, repeat, type Attack, type Place } from './attack.ts';

const slow = '{% for i in (1..3000) %}{% for j in (1..3000) %}{{ i }}{% endfor %}{% endfor %}';
/** About 40 ms of a worker, so that the mask can be stored. A page of a hundred tokens has 500 ms for all of them. */
const halting = '{% for i in (1..120) %}{% for j in (1..120) %}{{ i }}{% endfor %}{% endfor %}';
const large = 'x'.repeat(500_000);

const create = (body: object) => async (place: Place) =>
  repeat(await makeCaller(place, publicCaller), 'POST', '/tokens', { type: 'token', ...body });

/** Asks for a page of a hundred tokens with this data and mask. */
const page = (data: string, mask: string) => async (place: Place) => {
  const caller = await makeCaller(place);
  const body = { type: 'token', data, mask };
  // The evaluations that earlier strikes of this tenant left fill its queue for a while: then it is answered 503, and asks again.
  const make = () =>
    waitUntil(async () => (await caller.request('POST', '/tokens', { body })).status === 201, {
      timeoutMs: 60_000,
      pauseMs: 200,
      what: 'a token with a slow mask',
    });
  for (let made = 0; made < 100; made += 4) await Promise.all(Array.from({ length: 4 }, make));
  return repeat(caller, 'GET', '/tokens?size=100');
};

export const expressionAttacks: readonly Attack[] = [
  {
    name: 'masks that take all the time they have',
    line: 'B1',
    atOnce: 8,
    statuses: [400, 503],
    prepare: create({ data: 'x', mask: slow }),
  },
  {
    name: '20 filters over 500 KB',
    line: 'B1',
    atOnce: 8,
    statuses: [201, 400, 503],
    prepare: create({ data: large, mask: `{{ data${' | reveal: 1'.repeat(20)} }}` }),
  },
  {
    name: '330 filters over 500 KB',
    line: 'B1',
    atOnce: 8,
    statuses: [400],
    prepare: create({ data: large, mask: `{{ data${' | reveal: 1'.repeat(330)} }}` }),
  },
  {
    name: 'pages of 100 slow masks',
    line: 'B1',
    atOnce: 8,
    statuses: [200, 503],
    prepare: page('x', halting),
  },
  {
    name: 'pages of 100 masks that need no worker',
    line: 'B1',
    atOnce: 8,
    statuses: [200, 503],
    prepare: page('x'.repeat(4_000), '{{ data | reveal: 1 | reveal: 1 | reveal: 1 }}'),
  },
];
