import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { nginxBinary } from '@token-vault/deploy/running-gateway';
import { Canaries } from './canary/canaries.ts';
import { type Answered, overHttp } from './canary/journey.ts';
import { leaksIn, quotesIn } from './canary/leaks.ts';
import { openSinks } from './canary/sinks.ts';
import { openWorld, type World } from './canary/world.ts';

const flocks = { hidden: new Canaries('4'), open: new Canaries('5') };

describe.skipIf(nginxBinary === undefined)(
  'a card number at any place of any operation, through nginx (skipped where none is installed)',
  () => {
    let world: World;
    let answered: Answered[];
    beforeAll(async () => {
      world = await openWorld({ stack: 'processes', hasGateway: true });
      answered = await overHttp(world, flocks);
    }, 300_000);
    afterAll(() => world?.close());

    it('is in no table, log, metric or output, and in no file of nginx', async () => {
      const sinks = await openSinks(world);
      // The requests went through it.
      expect(sinks.get('files of nginx')).toContain('createToken');
      expect(leaksIn(sinks, flocks)).toEqual([]);
    });

    it('is in no error of another caller, and quoted only as a path, a name or a token that is not there', () => {
      expect(quotesIn(answered, flocks)).toEqual([]);
    });
  },
);
