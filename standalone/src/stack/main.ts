import { runUntilStopped } from '../life.ts';
import { readStackSettings } from './settings.ts';
import { startStack } from './start.ts';

await runUntilStopped((onAnswering) => startStack(readStackSettings(process.env), onAnswering));
