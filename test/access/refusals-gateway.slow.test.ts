import { nginxBinary } from '@token-vault/deploy/running-gateway';
import { afterAll, beforeAll, describe } from 'vitest';
import { openWorld, type World } from './canary/world.ts';
import { testRefusals } from './refusals/at-entrances.ts';
import { behindRouter, entrances } from './refusals/entrances.ts';
import { kinds, refuseIn } from './refusals/kinds.ts';

describe.skipIf(nginxBinary === undefined)(
  'through nginx and the router (skipped where nginx is not installed)',
  () => {
    let world: World;
    beforeAll(async () => {
      world = await openWorld({ stack: 'processes', hasGateway: true });
      refuseIn(world);
    }, 180_000);
    afterAll(() => world?.close());

    const wanted = ['HTTP', 'reactor code'];
    testRefusals(
      () => world,
      kinds.filter(({ isCounted }) => isCounted !== true),
      [...entrances.filter(({ name }) => wanted.includes(name)), behindRouter],
    );
  },
);
