/**
 * The extension: for each notebook what its kernel's agents do, as live cells, in JupyterLab and in Jupyter Notebook.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IEditorServices } from '@jupyterlab/codeeditor';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { type INotebookModel, INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';

import { RunBar } from './bar';
import { addCommands } from './commands';
import { NotebookRuns } from './notebook';
import { MIME } from './protocol';
import { Settings } from './settings';
import { NotebookView } from './view';

const ID = 'codeact-kernel:plugin';

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: "Shows an agent's blocks as live cells.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ISettingRegistry, ICommandPalette, IEditorServices],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    registry: ISettingRegistry | null,
    palette: ICommandPalette | null,
    editors: IEditorServices | null
  ): void => {
    const settings = new Settings();
    registry
      ?.load(ID)
      .then(loaded => {
        settings.take(loaded);
      })
      .catch((error: unknown) => {
        console.error('The settings of codeact-kernel cannot be read.', error);
      });

    const known = new WeakMap<DocumentRegistry.IContext<INotebookModel>, NotebookRuns>();
    const runsOf = (panel: NotebookPanel): NotebookRuns => {
      let runs = known.get(panel.context);
      if (runs === undefined) {
        runs = new NotebookRuns(panel.context, settings);
        known.set(panel.context, runs);
      }
      return runs;
    };

    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (panel: NotebookPanel): IDisposable => {
        const runs = runsOf(panel);
        const activate = (): void => {
          app.shell.activateById(panel.id);
        };
        const around = { commands: app.commands, editors, activate };
        panel.content.rendermime.addFactory(
          { safe: true, mimeTypes: [MIME], defaultRank: 0, createRenderer: () => new RunBar(runs, around) },
          0
        );
        const view = new NotebookView(panel, runs);
        return new DisposableDelegate(() => {
          view.dispose();
        });
      }
    });
    addCommands(app.commands, tracker, runsOf, palette, () =>
      app.contextMenuHitTest(node => node.classList.contains('codeact-Cell'))
    );
  }
};

export default plugin;
