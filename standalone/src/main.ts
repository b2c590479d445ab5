import { readConfig } from './config.ts';
import { runUntilStopped } from './life.ts';
import { startStandalone } from './start.ts';

await runUntilStopped(() => startStandalone(readConfig(process.env)));
