import { makeCaller, makeReactor, repeat, type Attack, type Place } from './attack.ts';

const react = (code: string) => async (place: Place) => {
  const caller = await makeCaller(place, { permissions: ['token:use', 'token:create'] });
  const path = await makeReactor(place, code, caller.applicationId);
  return repeat(caller, 'POST', path, { args: {} });
};

export const reactorAttacks: readonly Attack[] = [
  {
    name: 'runs of small code',
    line: 'B',
    atOnce: 8,
    statuses: [200, 503],
    prepare: react('return { raw: 1 };'),
  },
  {
    name: 'host names that no server answers',
    line: 'B2',
    atOnce: 8,
    statuses: [200, 500, 503],
    prepare: react(`
      const ask = (n) => fetch('https://n' + n + '-' + crypto.randomUUID() + '.silent.test/').catch((error) => error.code);
      return { raw: await Promise.all(Array.from({ length: 32 }, (_, n) => ask(n))) };`),
  },
  {
    name: 'results of many small values',
    line: 'B3',
    atOnce: 8,
    statuses: [200, 500, 503],
    prepare: react('return { raw: Array.from({ length: 190_000 }, (_, n) => n % 10) };'),
  },
  {
    name: 'bodies of 1 MiB to tokenize, of many values',
    line: 'B3',
    atOnce: 8,
    statuses: [200, 500, 503],
    prepare: react(`
      const send = () => req.svc.tokenize(Array(190_000).fill(1)).catch((error) => error.code);
      return { raw: await Promise.all(Array.from({ length: 8 }, send)) };`),
  },
];
