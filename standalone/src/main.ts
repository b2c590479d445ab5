import { readConfig } from './config.ts';
import { runUntilStopped } from './life.ts';
import { startStandalone } from './start.ts';

await runUntilStopped((onAnswering) => startStandalone(readConfig(process.env), onAnswering));
