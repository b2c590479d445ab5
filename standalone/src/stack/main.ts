import { runUntilStopped } from '../life.ts';
import { readStackSettings } from './settings.ts';
import { startStack } from './start.ts';

await runUntilStopped(() => startStack(readStackSettings(process.env)));
